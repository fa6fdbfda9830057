//! A session inside another program: the scripted model answers one prompt, in this process.

use std::sync::Arc;

use lathe_launch::{LaunchEnvironment, ModelSource, SessionOptions, SharedServices, SessionSignals, WarningSink};
use lathe_protocol::message::UserTurn;
use lathe_protocol::{Inbound, InboundUser, Outbound};
use lathe_scripted::{Script, ScriptedModel};
use tokio::sync::mpsc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let script = Script::parse("hello.json", r#"{"turns": [{"text": "You said: {{last_user_text}}"}]}"#)?;
    let model = ModelSource::Value(Arc::new(ScriptedModel::new(script)?));
    let options = SessionOptions { cwd: Some("/".into()), persist: false, ..SessionOptions::default() };
    let warnings: WarningSink = Arc::new(|warning| eprintln!("{warning}"));
    let environment = LaunchEnvironment::default();
    let session = lathe_launch::prepare(&options, environment, model, &SharedServices::default(), &warnings)?;

    let (prompts, inbox) = mpsc::channel(1);
    let (out, mut frames) = mpsc::channel(64);
    let prompt = InboundUser { message: UserTurn::new("hello"), ..InboundUser::default() };
    prompts.send(Inbound::User(prompt)).await?;
    drop(prompts); // No more prompts: the session ends when this one is answered.
    let running = tokio::spawn(session.run(inbox, out, SessionSignals::default()));
    while let Some(frame) = frames.recv().await {
        if let Outbound::Result(result) = frame {
            println!("{}", result.result.unwrap_or_default());
        }
    }
    if running.await?.last_was_error { Err("the session failed".into()) } else { Ok(()) }
}
