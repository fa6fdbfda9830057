"""Making room and starting over: /compact, compaction by itself, /clear, and commands the session answers itself."""

import json

from claude_agent_sdk import HookMatcher
from harness import Case, bash, calls, text


def summary(said):
    return text(f"<summary>{said}</summary>")


class Compaction(Case):
    def sent(self, number):
        return json.dumps(self.requests()[number]["body"]["messages"])

    async def test_compact_replaces_the_conversation_by_its_summary(self):
        heard = []

        async def note(hook_input, _tool_use_id, _context):
            heard.append((hook_input["hook_event_name"], hook_input.get("trigger")))
            return {}

        client = await self.client(
            [text("first"), summary("THE GIST"), text("after")],
            hooks={"PreCompact": [HookMatcher(hooks=[note])]},
        )
        (await self.turn(client, "the old days")).good()
        compacted = await self.turn(client, "/compact")
        after = (await self.turn(client, "next")).good()
        self.assertEqual(compacted.result.result, "")
        self.assertEqual(compacted.system("compact_boundary")[0]["compact_metadata"]["trigger"], "manual")
        self.assertEqual(after.result.result, "after")
        self.assertEqual(heard, [("PreCompact", "manual")])
        self.assertIn("THE GIST", self.sent(2))
        self.assertNotIn("the old days", self.sent(2))

    async def test_a_full_window_is_compacted(self):
        full = {**calls(bash("echo 1")), "usage": {"input_tokens": 970_000}}
        client = await self.client([full, summary("s"), text("after")], allowed_tools=["Bash"])
        seen = (await self.turn(client, "go")).good()
        self.assertEqual(seen.result.result, "after")
        self.assertEqual(seen.system("compact_boundary")[0]["compact_metadata"]["trigger"], "auto")

    async def test_clear_begins_another_session(self):
        client = await self.client([text("one"), text("two")])
        before = (await self.turn(client, "old words")).good()
        cleared = await self.turn(client, "/clear")
        after = (await self.turn(client, "new words")).good()
        self.assertNotEqual(cleared.result.session_id, before.result.session_id)
        self.assertEqual(after.result.session_id, cleared.result.session_id)
        self.assertNotIn("old words", self.sent(1))

    async def test_commands_are_listed_and_answered(self):
        client = await self.client([text("never")])
        commands = (await client.get_server_info())["commands"]
        self.assertIn("compact", [command["name"] for command in commands])
        seen = await self.turn(client, "/context")
        self.assertTrue(seen.result.result.startswith("## Context Usage"), seen.result.result)
        self.assertEqual(self.requests(), [])
