// `permissionDecision: 'defer'`: the run ends with the call, and a resumed session takes it up.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe } from 'node:test';

import { bash, binary, calls, newest, Prompts, text } from './harness.mjs';

/** PreToolUse hooks that give one decision. */
function deciding(permissionDecision, asked = []) {
  const hook = async (input) => {
    asked.push(input.tool_input);
    return { hookSpecificOutput: { hookEventName: 'PreToolUse', permissionDecision } };
  };
  return { hooks: { PreToolUse: [{ matcher: 'Bash', hooks: [hook] }] } };
}

/** A run that ends with a call put off; its result. */
async function putOff(w) {
  const seen = (await w.run([calls(bash('touch ran')), text('after')], 'go', deciding('defer'))).good();
  assert.equal(seen.result.terminal_reason, 'tool_deferred', `${seen}`);
  assert.equal(seen.result.stop_reason, 'tool_deferred');
  assert.deepEqual(seen.result.deferred_tool_use.input, { command: 'touch ran' });
  assert.equal(seen.result.deferred_tool_use.name, 'Bash');
  assert.deepEqual(seen.toolResults, []);
  assert.equal(w.has('ran'), false);
  return seen.result;
}

describe('defer', { concurrency: 4 }, () => {
  newest('a resumed session asks the hook again, runs the call and goes on with the prompt', async (w) => {
    const { session_id: resume } = await putOff(w);
    const asked = [];
    const seen = await w.read(w.query('and now?', { ...deciding('allow', asked), resume }));
    assert.equal(seen.good().result.result, 'after', `${seen}`);
    assert.deepEqual(asked, [{ command: 'touch ran' }]);
    assert.equal(w.has('ran'), true);
    assert.equal(w.requests().length, 2);
    const said = JSON.stringify(w.requests()[1].body.messages);
    assert.match(said, /tool_result/);
  });

  newest('it may be put off again, and denied at last', async (w) => {
    const first = await putOff(w);
    const again = (await w.read(w.query('?', { ...deciding('defer'), resume: first.session_id }))).good();
    assert.deepEqual(again.result.deferred_tool_use, first.deferred_tool_use);
    assert.equal(w.requests().length, 1);
    const denied = await w.read(w.query('?', { ...deciding('deny'), resume: first.session_id }));
    assert.equal(denied.good().result.result, 'after', `${denied}`);
    assert.equal(w.has('ran'), false);
  });

  newest('a host that sends no prompt has the call run', async (w) => {
    const { session_id: resume } = await putOff(w);
    const prompts = new Prompts();
    const seen = await w.read(w.query(prompts, { ...deciding('allow'), resume }), (message) => {
      if (message.type === 'result') prompts.end();
    });
    assert.equal(seen.good().result.result, 'after');
    assert.equal(seen.result.num_turns, 1);
    assert.equal(w.has('ran'), true);
  });

  newest('so has one that sends an empty prompt', async (w) => {
    const { session_id: resume } = await putOff(w);
    const seen = await w.read(w.query('', { ...deciding('allow'), resume }));
    assert.equal(seen.good().result.result, 'after', `${seen}`);
    assert.equal(w.has('ran'), true);
    assert.equal(w.requests().length, 2);
  });

  newest('the command line takes it up without a prompt, once', async (w) => {
    const { session_id } = await putOff(w);
    const { env, cwd } = w.options();
    const again = () =>
      spawnSync(binary, ['-p', '--resume', session_id, '--allowedTools', 'Bash'], { env, cwd, encoding: 'utf8', input: '' });
    const first = again();
    assert.equal(first.status, 0, first.stderr);
    assert.equal(first.stdout.trim(), 'after');
    assert.equal(w.has('ran'), true);
    const second = again();
    assert.equal(second.status, 1);
    assert.match(second.stderr, /No deferred tool marker found in the resumed session/);
  });
});
