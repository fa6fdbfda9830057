"""`ClaudeSDKClient`: several turns, interrupts, control requests, hooks."""

import asyncio
import json

from claude_agent_sdk import HookMatcher, PermissionResultAllow
from harness import AssistantMessage, Case, Seen, StreamEvent, allow, bash, calls, is_alive, text, text_of

TOUCH = [calls(bash("touch made")), text("done")]


class Sessions(Case):
    async def test_turns_share_the_history(self):
        client = await self.client([text("first"), text("second")])
        first = (await self.turn(client, "one")).good()
        second = (await self.turn(client, "two")).good()
        self.assertEqual([first.result.result, second.result.result], ["first", "second"])
        self.assertEqual(first.result.session_id, second.result.session_id)
        roles = [message["role"] for message in self.requests()[1]["body"]["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])
        self.assertGreater(second.result.total_cost_usd, first.result.total_cost_usd)
        self.assertEqual(self.stderr, [])

    async def test_disconnect_ends_the_process(self):
        client = await self.client([text("hi")])
        await self.turn(client, "one")
        pid = (await client.get_server_info())["pid"]
        self.assertTrue(is_alive(pid))
        await client.disconnect()
        await self.until("the process to end", lambda: not is_alive(pid))

    async def test_disconnect_during_a_tool_leaves_nothing_behind(self):
        client = await self.client([calls(bash("sleep 600 & echo $! > child; touch started; wait"))], allowed_tools=["Bash"])
        await client.query("go")
        await self.until("the command to start", lambda: self.has("started"))
        child = int((self.cwd / "child").read_text())
        await client.disconnect()
        await self.until("the child to end", lambda: not is_alive(child))

    async def test_a_prompt_during_a_turn_is_answered(self):
        client = await self.client({"turns": [calls(bash("touch made")), text("both")], "at_end": {"text": "second"}},
                                   can_use_tool=self.speaks_up)
        self.speaker = client
        seen = await self.turn(client, "one")
        self.assertEqual(seen.result.subtype, "success")
        sent = json.dumps([request["body"]["messages"] for request in self.requests()])
        if "another thing" not in sent:
            again = Seen()
            async for message in client.receive_response():
                again.messages.append(message)
            sent = json.dumps([request["body"]["messages"] for request in self.requests()])
        self.assertIn("another thing", sent)

    async def speaks_up(self, _name, _input, _context):
        await self.speaker.query("another thing")
        return PermissionResultAllow()


class Interrupts(Case):
    def assert_interrupted(self, seen, reason):
        self.assertEqual(seen.result.subtype, "error_during_execution", str(seen))
        self.assertTrue(seen.result.is_error)
        self.assertEqual(seen.result.terminal_reason, reason)

    async def test_while_streaming(self):
        first = {"text": "Once upon a time there was", "stall": {"after_events": 4}}
        client = await self.client([first, text("back")], include_partial_messages=True)
        sent = []

        async def each(message):
            if isinstance(message, StreamEvent) and "delta" in message.event and not sent:
                sent.append(asyncio.ensure_future(client.interrupt()))

        seen = await self.turn(client, "go", each)
        await sent[0]
        self.assert_interrupted(seen, "aborted_streaming")
        self.assertIn("[Request interrupted by user]", seen.user_texts)
        self.assertEqual((await self.turn(client, "again")).result.result, "back")

    async def test_in_a_tool(self):
        first = calls(bash("sleep 600 & echo $! > child; touch started; wait"))
        client = await self.client([first, text("back")], allowed_tools=["Bash"])

        async def each(message):
            if isinstance(message, AssistantMessage):
                await self.until("the command to start", lambda: self.has("started"))
                await client.interrupt()

        seen = await self.turn(client, "go", each)
        self.assert_interrupted(seen, "aborted_tools")
        self.assertIn("[Request interrupted by user for tool use]", seen.user_texts)
        child = int((self.cwd / "child").read_text())
        await self.until("the child to end", lambda: not is_alive(child))
        self.assertEqual((await self.turn(client, "again")).result.result, "back")

    async def test_in_a_pending_permission(self):
        withdrawn = asyncio.Event()

        async def can_use_tool(_name, _input, _context):
            asyncio.ensure_future(client.interrupt())
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                withdrawn.set()
                raise

        client = await self.client([calls(bash("touch made")), text("back")], can_use_tool=can_use_tool)
        seen = await self.turn(client, "go")
        self.assert_interrupted(seen, "aborted_tools")
        self.assertEqual(len(seen.result.permission_denials), 1)
        await asyncio.wait_for(withdrawn.wait(), 20)
        self.assertFalse(self.has("made"))
        self.assertEqual((await self.turn(client, "again")).result.result, "back")

    async def test_in_a_hook_that_looks_at_the_prompt(self):
        asked = []

        async def hook(event, _tool, _context):
            if event["prompt"] == "go":
                asked.append(asyncio.ensure_future(client.interrupt()))
                await asyncio.Event().wait()
            return {}

        hooks = {"UserPromptSubmit": [HookMatcher(hooks=[hook])]}
        client = await self.client([text("back")], hooks=hooks)
        seen = await self.turn(client, "go")
        await asked[0]
        self.assert_interrupted(seen, "aborted_streaming")
        self.assertEqual(self.requests(), [], "nobody has agreed to the prompt")
        self.assertEqual((await self.turn(client, "again")).result.result, "back")
        self.assertNotIn('"go"', json.dumps(self.requests()[0]["body"]["messages"]))

    async def test_when_idle(self):
        client = await self.client([text("one")])
        await client.interrupt()
        (await self.turn(client, "go")).good()


class Control(Case):
    async def test_set_model(self):
        client = await self.client([text("a"), text("b")], model="claude-sonnet-4-5")
        await client.set_model("claude-haiku-4-5")
        (await self.turn(client, "one")).good()
        await client.set_model(None)
        (await self.turn(client, "two")).good()
        models = [request["body"]["model"] for request in self.requests()]
        self.assertEqual(models, ["claude-haiku-4-5", "claude-sonnet-4-5"])

    async def test_set_permission_mode(self):
        write = calls({"name": "Write", "input": {"file_path": str(self.cwd / "made"), "content": "x"}})
        client = await self.client([write, text("done")])
        await client.set_permission_mode("acceptEdits")
        seen = (await self.turn(client, "go")).good()
        self.assertTrue(self.has("made"))
        self.assertEqual(seen.init["permissionMode"], "acceptEdits")

    async def test_set_permission_mode_refuses(self):
        client = await self.client([text("done")])
        with self.assertRaisesRegex(Exception, "Cannot set permission mode: must be one of"):
            await client.set_permission_mode("nonsense")
        with self.assertRaisesRegex(Exception, "not launched with --dangerously-skip-permissions"):
            await client.set_permission_mode("bypassPermissions")
        (await self.turn(client, "go")).good()

    async def test_server_info(self):
        client = await self.client([text("done")])
        info = await client.get_server_info()
        for key in ("commands", "models", "account", "output_style", "available_output_styles", "agents"):
            self.assertIn(key, info)
        self.assertEqual(info["account"]["apiKeySource"], "ANTHROPIC_API_KEY")

    async def test_mcp_status(self):
        client = await self.client([text("done")])
        self.assertEqual((await client.get_mcp_status())["mcpServers"], [])
        with self.assertRaisesRegex(Exception, "Server not found: nobody"):
            await client.reconnect_mcp_server("nobody")

    async def test_context_usage(self):
        client = await self.client([text("done")])
        before = await client.get_context_usage()
        (await self.turn(client, "many words " * 2000)).good()
        after = await client.get_context_usage()
        self.assertGreater(after["totalTokens"], before["totalTokens"] + 3000)
        self.assertGreaterEqual(after["maxTokens"], 200_000)

    async def test_rewind_files_refuses(self):
        client = await self.client([text("done")])
        with self.assertRaisesRegex(Exception, "File rewinding is not enabled"):
            await client.rewind_files("00000000-0000-4000-8000-000000000000")

    async def test_stop_task_of_nothing(self):
        client = await self.client([text("done")])
        await client.stop_task("b00000000")
        (await self.turn(client, "go")).good()

    async def test_requests_during_a_permission(self):
        status = []

        async def can_use_tool(_name, _input, _context):
            status.append(await client.get_mcp_status())
            return PermissionResultAllow()

        client = await self.client(TOUCH, can_use_tool=can_use_tool)
        (await self.turn(client, "go")).good()
        self.assertEqual(status, [{"mcpServers": []}])
        self.assertTrue(self.has("made"))

    async def test_many_at_once(self):
        client = await self.client([text("done")])
        answers = await asyncio.gather(*(client.get_mcp_status() for _ in range(30)))
        self.assertEqual(len(answers), 30)


def hook(event, answer=None, matcher=None, timeout=None):
    """One callback for one event, and the inputs it was called with."""
    inputs = []

    async def callback(given, tool_use_id, _context):
        inputs.append({**given, "id": tool_use_id})
        return answer(given, len(inputs)) if callable(answer) else (answer or {})

    return inputs, {event: [HookMatcher(matcher=matcher, hooks=[callback], timeout=timeout)]}


def specific(event, **fields):
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}




class Hooks(Case):
    async def run_hooked(self, script, hooks, prompt="go", **options):
        client = await self.client(script, hooks=hooks, **options)
        return (await self.turn(client, prompt)).good()

    async def test_pre_tool_use_sees_the_call(self):
        inputs, hooks = hook("PreToolUse", matcher="Bash")
        seen = await self.run_hooked(TOUCH, hooks, allowed_tools=["Bash"])
        self.assertEqual(len(inputs), 1)
        self.assertEqual(inputs[0]["tool_name"], "Bash")
        self.assertEqual(inputs[0]["tool_input"]["command"], "touch made")
        self.assertEqual(inputs[0]["session_id"], seen.init["session_id"])
        self.assertEqual(inputs[0]["id"], "toolu_001_0")

    async def test_pre_tool_use_denies(self):
        answer = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="not today")
        _, hooks = hook("PreToolUse", answer)
        seen = await self.run_hooked(TOUCH, hooks, allowed_tools=["Bash"])
        self.assertFalse(self.has("made"))
        self.assertIn("not today", text_of(seen.tool_results[0]))

    async def test_pre_tool_use_allows_other_input(self):
        answer = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch other"})
        _, hooks = hook("PreToolUse", answer)
        await self.run_hooked(TOUCH, hooks)
        self.assertTrue(self.has("other") and not self.has("made"))

    async def test_post_tool_use_adds_context(self):
        inputs, hooks = hook("PostToolUse", specific("PostToolUse", additionalContext="pears are ripe"))
        await self.run_hooked([calls(bash("echo pear")), text("done")], hooks)
        self.assertIn("pear", inputs[0]["tool_response"]["stdout"])
        self.assertIn("pears are ripe", json.dumps(self.requests()[1]["body"]))

    async def test_post_tool_use_failure(self):
        inputs, hooks = hook("PostToolUseFailure")
        await self.run_hooked([calls(bash("exit 3")), text("done")], hooks, allowed_tools=["Bash"])
        self.assertIn("Exit code 3", inputs[0]["error"])

    async def test_user_prompt_submit(self):
        inputs, hooks = hook("UserPromptSubmit", specific("UserPromptSubmit", additionalContext="it is Tuesday"))
        await self.run_hooked([text("done")], hooks, "what day is it")
        self.assertEqual(inputs[0]["prompt"], "what day is it")
        self.assertIn("it is Tuesday", json.dumps(self.requests()[0]["body"]))

    async def test_stop_blocks_once(self):
        inputs, hooks = hook("Stop", lambda _given, n: {"decision": "block", "reason": "add a pear"} if n == 1 else {})
        seen = await self.run_hooked([text("one"), text("one and a pear")], hooks)
        self.assertEqual([given["stop_hook_active"] for given in inputs], [False, True])
        self.assertEqual(seen.result.result, "one and a pear")

    async def test_permission_request_decides(self):
        answer = specific("PermissionRequest", decision={"behavior": "deny", "message": "hook says no"})
        inputs, hooks = hook("PermissionRequest", answer)
        seen = await self.run_hooked(TOUCH, hooks)
        self.assertEqual(len(inputs), 1)
        self.assertIn("hook says no", text_of(seen.tool_results[0]))

    async def test_a_callback_that_raises(self):
        def broken(_given, _n):
            raise RuntimeError("the hook broke")

        inputs, hooks = hook("PreToolUse", broken)
        await self.run_hooked(TOUCH, hooks, allowed_tools=["Bash"])
        self.assertEqual(len(inputs), 1)
        self.assertTrue(self.has("made"))

    async def test_a_callback_that_is_late(self):
        async def late(_given, _id, _context):
            await asyncio.Event().wait()

        hooks = {"PreToolUse": [HookMatcher(hooks=[late], timeout=1)]}
        seen = await self.run_hooked(TOUCH, hooks, allowed_tools=["Bash"])
        self.assertFalse(self.has("made"))
        self.assertTrue(seen.tool_results[0].is_error)

    async def test_hooks_and_permissions_do_not_disturb_a_run(self):
        _, hooks = hook("Stop")
        await self.run_hooked(TOUCH, hooks, can_use_tool=allow)
        self.assertTrue(self.has("made"))
        self.assertEqual(self.stderr, [])
