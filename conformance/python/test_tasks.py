"""Work beside the turn: commands in the background, lists of work, and tools that are loaded when needed."""

import asyncio

from claude_agent_sdk import PermissionResultDeny, ResultMessage, SystemMessage
from harness import CASE_SECONDS, Case, Seen, bash, calls, is_alive, text, text_of

WAITING = "echo $$ > pid; until [ -e gate ]; do sleep 0.02; done; echo over"


def in_background():
    call = bash(WAITING)
    call["input"].update(run_in_background=True, description="Wait")
    return calls(call)


class Background(Case):
    async def collect(self, client, each):
        """Reads until `each` is satisfied."""
        seen = Seen()

        async def collect():
            async for message in client.receive_messages():
                seen.messages.append(message)
                if await each(message, seen):
                    return

        await asyncio.wait_for(collect(), CASE_SECONDS)
        return seen

    async def test_the_end_of_a_command_starts_a_turn_after_the_result(self):
        script = [in_background(), text("started"), text("noticed")]
        client = await self.client(script, allowed_tools=["Bash"])
        await client.query("go")

        async def each(message, seen):
            if isinstance(message, ResultMessage):
                (self.cwd / "gate").touch()
            return len(seen.results) == 2

        seen = await self.collect(client, each)
        self.assertEqual([result.result for result in seen.results], ["started", "noticed"])
        [notice] = seen.system("task_notification")
        self.assertEqual(notice["status"], "completed")
        self.assertEqual(notice["summary"], 'Background command "Wait" completed (exit code 0)')

    async def test_a_host_stops_a_command(self):
        client = await self.client([in_background(), text("started")], allowed_tools=["Bash"])
        await client.query("go")

        async def each(message, seen):
            if isinstance(message, ResultMessage):
                pid = self.cwd / "pid"
                await self.until("the command", lambda: pid.exists() and pid.read_text().endswith("\n"))
                await client.stop_task(seen.system("task_started")[0]["task_id"])
            return isinstance(message, SystemMessage) and message.subtype == "task_notification"

        seen = await self.collect(client, each)
        self.assertEqual(seen.system("task_notification")[0]["status"], "stopped")
        pid = int((self.cwd / "pid").read_text())
        await self.until("the end of the command", lambda: not is_alive(pid))


class Lists(Case):
    async def test_tasks_are_created_and_listed(self):
        script = [
            calls({"name": "TaskCreate", "input": {"subject": "Write", "description": "the text"}}),
            calls({"name": "TaskList", "input": {}}),
            text("done"),
        ]
        seen = (await self.run_query(script, env={"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"})).good()
        told = [text_of(result) for result in seen.tool_results]
        self.assertEqual(told, ["Task #1 created successfully: Write", "#1 [pending] Write"])


class Search(Case):
    async def test_a_search_loads_a_tool(self):
        script = [calls({"name": "ToolSearch", "input": {"query": "select:NotebookEdit"}}), text("done")]
        seen = (await self.run_query(script)).good()
        self.assertIn("NotebookEdit", seen.init["tools"])
        before, after = [[tool["name"] for tool in request["body"]["tools"]] for request in self.requests()]
        self.assertNotIn("NotebookEdit", before)
        self.assertEqual(after, [*before, "NotebookEdit"])


class Plans(Case):
    async def test_plan_mode_is_not_left_without_consent(self):
        async def can_use_tool(_name, _input, _context):
            return PermissionResultDeny(message="think again")

        script = [calls({"name": "ExitPlanMode", "input": {}}), text("done")]
        seen = (await self.run_query(script, can_use_tool=can_use_tool, permission_mode="plan")).good()
        self.assertTrue(seen.tool_results[0].is_error)
        self.assertIn("think again", text_of(seen.tool_results[0]))
        self.assertEqual(seen.system("status"), [])
