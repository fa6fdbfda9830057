//! Commands that are prompts: the model gets a text of ours in place of what the user typed. The texts are in
//! `prompts/`; which commands there are is in `../commands.rs`.

use lathe_protocol::{ContentBlock, InboundUser, MessageContent};

use super::loop_text::loop_text;

/// Where the words of the user go in a text, with the sentence that leads to them.
const LEAD: &str = "The user says about it:";

/// A command with the text that the model gets for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptCommand {
    Init,
    Loop,
    Review,
    SecurityReview,
}

impl PromptCommand {
    /// Returns what the model is told for the command, with the words of the user, if there are any, at the end;
    /// `/loop` puts them into its own text.
    fn text(self, args: &str) -> String {
        let fixed = match self {
            Self::Init => include_str!("prompts/init.md"),
            Self::Loop => return loop_text(args),
            Self::Review => include_str!("prompts/review.md"),
            Self::SecurityReview => include_str!("prompts/security-review.md"),
        };
        let fixed = fixed.trim_end();
        if args.is_empty() { fixed.to_owned() } else { format!("{fixed}\n\n{LEAD}\n{args}") }
    }
}

/// A prompt that called such a command.
pub struct ExpandedPrompt {
    /// The name of the command, not an alias.
    pub name: String,
    /// What followed the name.
    pub args: String,
    /// The prompt as the model gets it. Its first block says what was typed, so that lists of sessions and the model
    /// know; the second is the text of the command.
    pub told: InboundUser,
}

impl ExpandedPrompt {
    /// Expands a prompt that called a command: its content becomes a block that says what was typed and a block with
    /// the command's text. Everything else of `prompt` stays. `name` is the name of the command, not an alias.
    pub(crate) fn new(command: PromptCommand, name: &str, args: &str, prompt: &InboundUser) -> Self {
        let mut typed =
            format!("<command-message>{name}</command-message>\n<command-name>/{name}</command-name>");
        if !args.is_empty() {
            typed.push_str(&format!("\n<command-args>{args}</command-args>"));
        }
        let text = command.text(args);
        let mut told = prompt.clone();
        told.message.content =
            MessageContent::Blocks(vec![ContentBlock::text(&typed), ContentBlock::text(&text)]);
        Self { name: name.to_owned(), args: args.to_owned(), told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_gets_what_was_typed_and_the_text_with_the_words_of_the_user() {
        let prompt = InboundUser::default();
        let plain = ExpandedPrompt::new(PromptCommand::Review, "review", "", &prompt);
        let MessageContent::Blocks(blocks) = &plain.told.message.content else { panic!("blocks") };
        let texts: Vec<&str> = blocks.iter().filter_map(ContentBlock::as_text).collect();
        assert_eq!(
            texts[0],
            "<command-message>review</command-message>\n<command-name>/review</command-name>"
        );
        assert_eq!(texts[1], include_str!("prompts/review.md").trim_end());
        let asked = ExpandedPrompt::new(PromptCommand::Init, "init", "in German", &prompt);
        let text = asked.told.message.content.text();
        assert!(text.contains("<command-args>in German</command-args>"), "{text}");
        assert!(text.ends_with("The user says about it:\nin German"), "{text}");
    }

    #[test]
    fn the_texts_are_short_enough_to_be_paid_for() {
        for command in [PromptCommand::Init, PromptCommand::Review, PromptCommand::SecurityReview] {
            let bytes = command.text("").len();
            assert!((500..4_000).contains(&bytes), "{command:?}: {bytes}");
        }
    }
}
