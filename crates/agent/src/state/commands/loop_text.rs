//! What the model is told for `/loop`. Unlike the other texts it names tools, and the prompt that the next turn of the
//! loop gets.

use lathe_tools::{CronCreate, CronDelete, ScheduleWakeup};

/// Returns what the model is told for `/loop`. Without `args` the task is what the conversation has left open.
pub(super) fn loop_text(args: &str) -> String {
    let task = match args {
        "" => "It names no task: go on with what this conversation has left open. If nothing is open, say so and \
               schedule nothing."
            .to_owned(),
        args => format!("The task, as the user wrote it:\n{args}"),
    };
    let again = format!("/loop {args}");
    let (create, delete, wake) = (CronCreate::NAME, CronDelete::NAME, ScheduleWakeup::NAME);
    format!(
        "This is the command /loop: a task is to be done again and again while this session is open.\n\
         {task}\n\n\
         If the user names an interval (such as 5m, or every 2 hours), make a recurring job with {create} (search for \
         the tool if it is only named). Its prompt is the task without the interval; its expression is the one that \
         comes closest to the interval, with steps that divide the hour or the day evenly. Tell the user its id, how \
         often it comes, and that it ends after 7 days or with {delete}. Then do the task once, now.\n\
         Without an interval, do the task once, now. Then decide whether it has to be looked at again, and when: soon \
         if something is about to change, late if little happens. Call {wake} with that delay, and with exactly \
         this prompt, so that the next turn goes on with the loop: {again}\n\
         What a background command or a monitor will report needs no short delay.\n\
         The loop is over when the task is done or makes no sense any more. Then schedule nothing, cancel what is \
         scheduled, and say so."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_turn_of_a_loop_gets_the_same_command() {
        let text = loop_text("5m look at the build");
        assert!(text.contains("wrote it:\n5m look at the build\n"), "{text}");
        assert!(text.contains("the loop: /loop 5m look at the build\n"), "{text}");
        assert!(loop_text("").contains("names no task"));
    }
}
