"""Hooks of settings files under the Python SDK, and the callbacks it knows that only a running session raises."""

import json
import os
import unittest

from claude_agent_sdk import HookMatcher

from harness import Case, allow, bash, calls, text, text_of

TOUCH = [calls(bash("touch made")), text("done")]


def on(event, command, **more):
    return {event: [{"hooks": [{"type": "command", "command": command, **more}]}]}


class SettingsHooks(Case):
    def user_settings(self, settings):
        (self.config / "settings.json").write_text(json.dumps(settings))

    async def run_hooked(self, script, hooks, **options):
        self.user_settings({"hooks": hooks})
        options = {"setting_sources": ["user"], "allowed_tools": ["Bash"], **options}
        return (await self.run_query(script, **options)).good()

    async def test_a_command_denies(self):
        seen = await self.run_hooked(TOUCH, on("PreToolUse", "echo not today >&2; exit 2"))
        self.assertFalse(self.has("made"))
        self.assertIn("not today", text_of(seen.tool_results[0]))

    async def test_the_start_is_told_and_shown(self):
        seen = await self.run_hooked([text("done")], on("SessionStart", "echo the build is red"))
        self.assertIn("the build is red", json.dumps(self.requests()[0]["body"]))
        self.assertEqual([m["hook_name"] for m in seen.system("hook_started")], ["SessionStart:startup"])
        self.assertEqual(seen.system("hook_response")[0]["outcome"], "success")

    async def test_all_frames_for_those_who_ask(self):
        hooks = {**on("PreToolUse", "echo before"), **on("Stop", "echo bye")}
        seen = await self.run_hooked(TOUCH, hooks, include_hook_events=True)
        names = [m["hook_name"] for m in seen.system("hook_started")]
        self.assertEqual(names, ["PreToolUse:Bash", "Stop"])

    async def test_no_sources_no_hooks(self):
        await self.run_hooked(TOUCH, on("PreToolUse", "exit 2"), setting_sources=[])
        self.assertTrue(self.has("made"))

    async def test_the_end_runs_after_the_result(self):
        await self.run_hooked([text("done")], on("SessionEnd", "cat > \"$CLAUDE_PROJECT_DIR/end\""))
        await self.until("the end hook", lambda: self.has("end") and (self.cwd / "end").read_text().endswith("\n"))
        self.assertEqual(json.loads((self.cwd / "end").read_text())["reason"], "other")

    async def test_settings_of_a_flag_bring_hooks(self):
        settings = json.dumps({"hooks": on("PreToolUse", "echo no >&2; exit 2")})
        (await self.run_query(TOUCH, settings=settings, allowed_tools=["Bash"])).good()
        self.assertFalse(self.has("made"))

    async def test_a_broken_file_stops_the_start_and_is_named(self):
        (self.config / "settings.json").write_text('{\n  "permissions": {"deny": ["Bash"],,\n}')
        seen = await self.run_query([text("never")], setting_sources=["user"])
        self.assertIsNotNone(seen.error)
        self.assertEqual(self.requests(), [])
        self.assertRegex("".join(self.stderr), r"settings\.json:2:\d+")


class Callbacks(Case):
    async def test_a_notification_for_a_permission_question(self):
        inputs = []

        async def notified(given, _id, _context):
            inputs.append(given)
            return {}

        hooks = {"Notification": [HookMatcher(hooks=[notified])]}
        client = await self.client(TOUCH, hooks=hooks, can_use_tool=allow)
        (await self.turn(client, "go")).good()
        await self.until("the notification", lambda: len(inputs) == 1)
        self.assertEqual(inputs[0]["notification_type"], "permission_prompt")
        self.assertTrue(self.has("made"))

    async def test_batches_and_effort_are_told(self):
        inputs = []

        async def stopped(given, _id, _context):
            inputs.append(given)
            return {}

        client = await self.client([text("done")], hooks={"Stop": [HookMatcher(hooks=[stopped])]})
        (await self.turn(client, "go")).good()
        self.assertIn("level", inputs[0]["effort"])
        self.assertTrue(os.path.isabs(inputs[0]["transcript_path"]))


if __name__ == "__main__":
    unittest.main()
