// The control channel in both directions: what a host asks while a session runs, questions to a person, and
// what the SDK makes of answers that make no sense.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { describe } from 'node:test';

import { allow, bash, both, calls, every, lastMessageOf, newest, Prompts, promised, text, textOf } from './harness.mjs';

const question = { question: 'Which?', header: 'Pick', multiSelect: false,
  options: [{ label: 'A', description: 'a' }, { label: 'B', description: 'b' }] };
const ask = { name: 'AskUserQuestion', input: { questions: [question] } };

describe('questions to a person', { concurrency: 4 }, () => {
  every('AskUserQuestion is answered through canUseTool', async (w) => {
    const canUseTool = async (name, input) => {
      assert.equal(name, 'AskUserQuestion');
      return { behavior: 'allow', updatedInput: { ...input, answers: { 'Which?': 'B' } } };
    };
    const seen = (await w.run([calls(ask), text('done')], 'go', { canUseTool })).good();
    assert.ok(seen.init.tools.includes('AskUserQuestion'));
    assert.ok(textOf(seen.toolResults[0]).startsWith('Your questions have been answered: "Which?"="B".'), `${seen}`);
    assert.deepEqual(seen.of('user')[0].tool_use_result.answers, { 'Which?': 'B' });
    assert.equal(w.stderr, '');
  });

  both('nobody to ask, no answer', async (w) => {
    const seen = await w.run([calls(ask), text('done')], 'go');
    // Clients of the 0.2 generation have the tool with and without a host.
    assert.equal(seen.init.tools.includes('AskUserQuestion'), w.isSeed);
    assert.equal(seen.toolResults[0].is_error, true);
  });

  every('ExitPlanMode needs consent and gives the mode back', async (w) => {
    const asked = [];
    const canUseTool = async (name, input) => {
      asked.push(name);
      return { behavior: 'allow', updatedInput: input };
    };
    const script = [calls({ name: 'ExitPlanMode', input: {} }), calls(bash('touch made')), text('done')];
    const seen = (await w.run(script, 'go', { canUseTool, permissionMode: 'plan' })).good();
    assert.deepEqual(asked, ['ExitPlanMode', 'Bash'], `${seen}`);
    assert.deepEqual(seen.of('system', 'status').map((m) => m.permissionMode), ['default']);
    assert.ok(w.has('made'));
    assert.match(lastMessageOf(w.requests()[0]), /Plan mode is on/);
  });

  every('ExitPlanMode without consent leaves the mode as it is', async (w) => {
    const asked = [];
    const canUseTool = async (name) => {
      asked.push(name);
      return { behavior: 'deny', message: 'think again' };
    };
    const script = [calls({ name: 'ExitPlanMode', input: {} }), calls(bash('touch made')), text('done')];
    const seen = (await w.run(script, 'go', { canUseTool, permissionMode: 'plan' })).good();
    assert.equal(asked[0], 'ExitPlanMode', `${seen}`);
    assert.equal(seen.toolResults[0].is_error, true);
    assert.match(textOf(seen.toolResults[0]), /think again/);
    assert.deepEqual(seen.of('system', 'status'), [], `${seen}`);
    assert.ok(!w.has('made'));
    assert.equal(seen.result.permission_denials[0].tool_name, 'ExitPlanMode');
  });

  newest('planModeInstructions take the place of the own ones', async (w) => {
    const options = { permissionMode: 'plan', planModeInstructions: 'Plan with a pencil.' };
    (await w.run([text('done')], 'go', options)).good();
    assert.match(lastMessageOf(w.requests()[0]), /Plan with a pencil\./);
  });
});

describe('answers that make no sense', { concurrency: 4 }, () => {
  for (const [what, result] of [
    ['an unknown behaviour', { behavior: 'perhaps' }],
    ['a denial without a message', { behavior: 'deny' }],
    ['updates that are no list', { behavior: 'allow', updatedPermissions: 'all' }],
    ['nothing at all', {}],
  ]) {
    both(`${what} denies the call, tells the host and the log`, async (w) => {
      const seen = await w.run([calls(bash('touch made')), text('done')], 'go', { canUseTool: async () => result });
      seen.good();
      assert.ok(!w.has('made'));
      assert.equal(seen.result.permission_denials.length, 1);
      const told = seen.of('system', 'informational').filter((m) => m.tag === 'invalid_permission_result');
      assert.equal(told.length, 1, `${seen}`);
      await w.complaint(/answer to can_use_tool for Bash/);
    });
  }

  both('a good answer leaves stderr silent', async (w) => {
    (await w.run([calls(bash('touch made')), text('done')], 'go', { canUseTool: allow })).good();
    assert.equal(w.stderr, '');
  });
});

describe('requests while a session runs', { concurrency: 4 }, () => {
  /** A first turn, then `act`, then the end. */
  async function between(w, script, options, act) {
    await w.model(script);
    const prompts = new Prompts().push('go');
    const query = w.query(prompts, options);
    const seen = await w.read(query, async (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) await act(query, prompts);
      else prompts.end();
    });
    assert.equal(seen.error, undefined, `${seen}`);
    return seen;
  }

  newest('seedReadState lets a file be edited that was read earlier', async (w) => {
    const file = w.file('a.txt', 'one\n');
    const edit = { name: 'Edit', input: { file_path: file, old_string: 'one', new_string: 'two' } };
    const seen = await between(w, [text('first'), calls(edit), text('done')], { permissionMode: 'acceptEdits' },
      async (query, prompts) => {
        await query.seedReadState(file, Math.floor(statSync(file).mtimeMs));
        prompts.push('edit');
      });
    assert.notEqual(seen.toolResults[0].is_error, true, `${seen}`);
  });

  newest('updateSettings, reloads and usage have their form', async (w) => {
    await between(w, [text('first'), text('second')], {}, async (query, prompts) => {
      await query.updateSettings('localSettings', { outputStyle: 'Explanatory' });
      assert.ok((await query.reloadOutputStyles()).available_output_styles.includes('default'));
      assert.ok(Array.isArray((await query.reloadSkills()).skills));
      assert.equal((await query.reloadPlugins()).error_count, 0);
      const usage = await query.usage_EXPERIMENTAL_MAY_CHANGE_DO_NOT_RELY_ON_THIS_API_YET();
      assert.ok(usage.session.total_cost_usd > 0);
      assert.ok(usage.session.total_api_duration_ms >= 0);
      prompts.push('more');
    });
  });

  newest('in-process MCP servers are named as failed, not left out', async (w) => {
    const calc = w.sdk.createSdkMcpServer({ name: 'calc', tools: [] });
    await w.model([text('done')]);
    const query = w.query('go', { mcpServers: { calc } });
    const status = await query.mcpServerStatus();
    assert.deepEqual(status.map((row) => [row.name, row.status]), [['calc', 'failed']]);
    const seen = (await w.read(query)).good();
    assert.equal(seen.init.mcp_servers[0].status, 'failed');
  });

  newest('toolAliases lead to the tool they stand for', async (w) => {
    const shell = { name: 'Shell', input: { command: 'echo hi' } };
    const seen = (await w.run([calls(shell), text('done')], 'go', { toolAliases: { Shell: 'Bash' } })).good();
    assert.equal(textOf(seen.toolResults[0]), 'hi');
  });

  newest('a permission that is pending is told again to a host that introduces itself again', async (w) => {
    await w.model([calls(bash('touch made')), text('done')]);
    const asked = promised();
    const query = w.query('go', {
      canUseTool: async (_name, input) => {
        const again = await query.reinitialize();
        asked.resolve(again.session_state);
        return { behavior: 'allow', updatedInput: input };
      },
    });
    (await w.read(query)).good();
    assert.equal(await asked.promise, 'requires_action');
    assert.ok(w.has('made'));
  });
});
