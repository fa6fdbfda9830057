// Who decides about a tool call: canUseTool and its answers, rules given as options, permission modes.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { allow, bash, both, calls, Prompts, text, textOf } from './harness.mjs';

const touch = [calls(bash('touch made')), text('done')];

describe('canUseTool', { concurrency: 4 }, () => {
  both('allow runs the call', async (w) => {
    const asked = [];
    const canUseTool = async (name, input, more) => {
      asked.push({ name, input, more, ranBefore: w.has('made') });
      return { behavior: 'allow', updatedInput: input };
    };
    const seen = (await w.run(touch, 'go', { canUseTool })).good();
    assert.equal(asked.length, 1);
    assert.equal(asked[0].name, 'Bash');
    assert.equal(asked[0].input.command, 'touch made');
    assert.equal(asked[0].ranBefore, false);
    assert.equal(asked[0].more.toolUseID, 'toolu_001_0');
    assert.ok(asked[0].more.signal instanceof AbortSignal);
    assert.ok(asked[0].more.suggestions.length > 0);
    assert.ok(w.has('made'));
    assert.equal(seen.result.result, 'done');
    assert.deepEqual(seen.result.permission_denials, []);
    assert.equal(seen.toolResults[0].tool_use_id, 'toolu_001_0');
    assert.notEqual(seen.toolResults[0].is_error, true);
  });

  both('allow without updatedInput runs the call as it was', async (w) => {
    (await w.run(touch, 'go', { canUseTool: async () => ({ behavior: 'allow' }) })).good();
    assert.ok(w.has('made'));
  });

  both('changed input is what runs', async (w) => {
    const canUseTool = async () => ({ behavior: 'allow', updatedInput: { command: 'touch other && echo CHANGED' } });
    const seen = (await w.run(touch, 'go', { canUseTool })).good();
    assert.ok(w.has('other'));
    assert.ok(!w.has('made'));
    assert.match(textOf(seen.toolResults[0]), /CHANGED/);
  });

  both('deny gives its message to the model and the loop goes on', async (w) => {
    const canUseTool = async () => ({ behavior: 'deny', message: 'not on a Sunday' });
    const seen = (await w.run(touch, 'go', { canUseTool })).good();
    assert.ok(!w.has('made'));
    assert.equal(seen.toolResults[0].is_error, true);
    assert.equal(textOf(seen.toolResults[0]), 'not on a Sunday');
    assert.equal(seen.result.result, 'done');
    assert.equal(seen.result.num_turns, 2);
    const [denial] = seen.result.permission_denials;
    assert.equal(denial.tool_name, 'Bash');
    assert.equal(denial.tool_use_id, 'toolu_001_0');
    assert.equal(denial.tool_input.command, 'touch made');
    assert.equal(w.requests().length, 2);
  });

  both('deny with interrupt ends the turn, and the session takes the next prompt', async (w) => {
    await w.model([calls(bash('touch made')), text('second turn')]);
    const prompts = new Prompts().push('go');
    const canUseTool = async () => ({ behavior: 'deny', message: 'stop it', interrupt: true });
    const seen = await w.read(w.query(prompts, { canUseTool }), (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) prompts.push('again');
      else prompts.end();
    });
    assert.equal(seen.error, undefined, `${seen}`);
    assert.ok(!w.has('made'));
    const [first, second] = seen.results;
    assert.equal(first.subtype, 'error_during_execution');
    assert.equal(first.terminal_reason, 'aborted_tools');
    assert.equal(first.is_error, w.endsAsError);
    assert.equal(first.permission_denials.length, 1);
    assert.equal(seen.toolResults[0].is_error, true);
    assert.ok(seen.userTexts.includes('[Request interrupted by user for tool use]'), `${seen}`);
    assert.equal(second.subtype, 'success');
    assert.equal(second.result, 'second turn');
    assert.equal(first.session_id, second.session_id);
  });

  both('an answer may take its time while other requests are answered', async (w) => {
    await w.model(touch);
    let status;
    const query = w.query('go', {
      canUseTool: async (_name, input) => {
        status = await query.mcpServerStatus();
        await query.setPermissionMode('plan');
        await query.setPermissionMode('default');
        return { behavior: 'allow', updatedInput: input };
      },
    });
    (await w.read(query)).good();
    assert.deepEqual(status, []);
    assert.ok(w.has('made'));
  });

  both('several calls are asked one after the other in their order', async (w) => {
    const asked = [];
    const canUseTool = async (_name, input) => {
      const ran = ['a', 'b', 'c'].filter((name) => w.has(name));
      asked.push(`${input.command} after ${ran.join('+') || 'nothing'}`);
      await new Promise(setImmediate);
      return { behavior: 'allow', updatedInput: input };
    };
    const script = [calls(bash('touch a'), bash('touch b'), bash('touch c')), text('done')];
    const seen = (await w.run(script, 'go', { canUseTool })).good();
    assert.deepEqual(asked, ['touch a after nothing', 'touch b after a', 'touch c after a+b']);
    assert.equal(seen.toolResults.length, 3);
    assert.equal(seen.result.num_turns, 4);
    const sent = w.requests()[1].body.messages.at(-1).content;
    const ids = sent.filter((block) => block.type === 'tool_result').map((block) => block.tool_use_id);
    assert.deepEqual(ids, ['toolu_001_0', 'toolu_001_1', 'toolu_001_2']);
  });

  both('one of several may be denied', async (w) => {
    const canUseTool = async (_name, input) =>
      input.command === 'touch b'
        ? { behavior: 'deny', message: 'not b' }
        : { behavior: 'allow', updatedInput: input };
    const script = [calls(bash('touch a'), bash('touch b'), bash('touch c')), text('done')];
    const seen = (await w.run(script, 'go', { canUseTool })).good();
    assert.deepEqual(['a', 'b', 'c'].map((name) => w.has(name)), [true, false, true]);
    assert.deepEqual(seen.result.permission_denials.map((denial) => denial.tool_use_id), ['toolu_001_1']);
  });

  both('a callback that throws fails the call, not the session', async (w) => {
    const canUseTool = async () => {
      throw new Error('the callback broke');
    };
    const seen = (await w.run(touch, 'go', { canUseTool })).good();
    assert.ok(!w.has('made'));
    assert.equal(seen.toolResults[0].is_error, true);
    assert.match(textOf(seen.toolResults[0]), /^Tool permission request failed: Error: the callback broke/);
    assert.equal(seen.result.permission_denials.length, 1);
  });

  both('read-only calls are not asked about', async (w) => {
    w.file('notes.txt', 'remember the milk');
    const asked = [];
    const canUseTool = async (name, input) => {
      asked.push(name);
      return { behavior: 'allow', updatedInput: input };
    };
    const read = { name: 'Read', input: { file_path: w.path('notes.txt') } };
    const seen = (await w.run([calls(bash('ls'), bash('echo hi'), read), text('done')], 'go', { canUseTool })).good();
    assert.deepEqual(asked, []);
    assert.match(textOf(seen.toolResults.find((block) => block.tool_use_id === 'toolu_001_2')), /remember the milk/);
  });

  both('an accepted suggestion holds for the next call', async (w) => {
    let asked = 0;
    const canUseTool = async (_name, input, { suggestions }) => {
      asked += 1;
      const forSession = suggestions.map((update) => ({ ...update, destination: 'session' }));
      return { behavior: 'allow', updatedInput: input, updatedPermissions: forSession };
    };
    const script = [calls(bash('touch made')), calls(bash('touch made')), text('done')];
    (await w.run(script, 'go', { canUseTool })).good();
    assert.equal(asked, 1);
  });

  both('a rule for localSettings is written to the project', async (w) => {
    const rule = { type: 'addRules', rules: [{ toolName: 'Bash', ruleContent: 'touch *' }], behavior: 'allow' };
    const canUseTool = async (_name, input) => ({
      behavior: 'allow',
      updatedInput: input,
      updatedPermissions: [{ ...rule, destination: 'localSettings' }],
    });
    (await w.run(touch, 'go', { canUseTool })).good();
    const written = JSON.parse(readFileSync(path.join(w.cwd, '.claude/settings.local.json'), 'utf8'));
    assert.deepEqual(written.permissions.allow, ['Bash(touch *)']);
  });

  both('setMode changes the mode of the session', async (w) => {
    let asked = 0;
    const canUseTool = async (_name, input) => {
      asked += 1;
      const setMode = { type: 'setMode', mode: 'acceptEdits', destination: 'session' };
      return { behavior: 'allow', updatedInput: input, updatedPermissions: [setMode] };
    };
    const write = (name) => ({ name: 'Write', input: { file_path: w.path(name), content: 'x' } });
    const seen = (await w.run([calls(write('a')), calls(write('b')), text('done')], 'go', { canUseTool })).good();
    assert.equal(asked, 1);
    assert.ok(w.has('a') && w.has('b'));
    assert.ok(seen.of('system', 'status').some((m) => m.permissionMode === 'acceptEdits'), `${seen}`);
  });

  both('without a callback a question is a denial that says so', async (w) => {
    const script = [calls({ name: 'Write', input: { file_path: w.path('made'), content: 'x' } }), text('done')];
    const seen = (await w.run(script, 'go')).good();
    assert.ok(!w.has('made'));
    const wanted = `Claude requested permissions to write to ${w.path('made')}, but you haven't granted it yet.`;
    assert.equal(textOf(seen.toolResults[0]), wanted);
    assert.equal(seen.result.permission_denials.length, 1);
    const kinds = seen.messages.map((m) => `${m.type}/${m.subtype ?? ''}`);
    assert.ok(kinds.indexOf('system/permission_denied') < kinds.indexOf('user/'), `${kinds}`);
    assert.ok(kinds.includes('system/permission_denied'));
  });
});

describe('rules and tool lists', { concurrency: 4 }, () => {
  const toolsOf = (request) => (request.body.tools ?? []).map((tool) => tool.name).sort();

  both('tools names the only tools there are', async (w) => {
    const seen = (await w.run([text('done')], 'go', { tools: ['Read', 'Bash'] })).good();
    // TaskStop ends what Bash starts in the background, so it comes with it.
    assert.deepEqual(seen.init.tools.toSorted(), ['Bash', 'Read', 'TaskStop']);
    assert.deepEqual(toolsOf(w.requests()[0]), ['Bash', 'Read', 'TaskStop']);
  });

  both('an empty tools list leaves none', async (w) => {
    const seen = (await w.run([text('done')], 'go', { tools: [] })).good();
    assert.deepEqual(seen.init.tools, []);
    assert.deepEqual(toolsOf(w.requests()[0]), []);
  });

  both('the tools preset gives all of them', async (w) => {
    const seen = (await w.run([text('done')], 'go', { tools: { type: 'preset', preset: 'claude_code' } })).good();
    for (const tool of ['Bash', 'Edit', 'Read', 'Write']) assert.ok(seen.init.tools.includes(tool), tool);
    // Today's sessions search with Bash where they have it.
    for (const tool of ['Glob', 'Grep']) assert.equal(seen.init.tools.includes(tool), w.isSeed, tool);
  });

  both('a disallowed tool is gone, and calling it is an error of the call', async (w) => {
    const seen = (await w.run(touch, 'go', { disallowedTools: ['Bash'], canUseTool: allow })).good();
    assert.ok(!seen.init.tools.includes('Bash'));
    assert.ok(!toolsOf(w.requests()[0]).includes('Bash'));
    assert.match(textOf(seen.toolResults[0]), /No such tool available: Bash/);
    assert.deepEqual(seen.result.permission_denials, []);
    assert.ok(!w.has('made'));
  });

  both('a disallowed rule denies what it matches and nothing else', async (w) => {
    const asked = [];
    const canUseTool = async (_name, input) => {
      asked.push(input.command);
      return { behavior: 'allow', updatedInput: input };
    };
    const script = [calls(bash('touch made')), calls(bash('mkdir other')), text('done')];
    const seen = (await w.run(script, 'go', { disallowedTools: ['Bash(touch *)'], canUseTool })).good();
    assert.deepEqual(asked, ['mkdir other']);
    assert.ok(!w.has('made') && w.has('other'));
    assert.equal(seen.result.permission_denials.length, 1);
    assert.equal(seen.of('system', 'permission_denied').length, 1);
  });

  both('an allowed rule spares the question for what it matches', async (w) => {
    const asked = [];
    const canUseTool = async (_name, input) => {
      asked.push(input.command);
      return { behavior: 'allow', updatedInput: input };
    };
    const script = [calls(bash('touch made')), calls(bash('mkdir other')), text('done')];
    (await w.run(script, 'go', { allowedTools: ['Bash(touch *)'], canUseTool })).good();
    assert.deepEqual(asked, ['mkdir other']);
    assert.ok(w.has('made') && w.has('other'));
  });

  both('deny outranks allow', async (w) => {
    const options = { allowedTools: ['Bash'], disallowedTools: ['Bash(touch *)'], canUseTool: allow };
    (await w.run(touch, 'go', options)).good();
    assert.ok(!w.has('made'));
  });

  both('a rule does not let a second command through', async (w) => {
    const asked = [];
    const canUseTool = async (_name, input) => {
      asked.push(input.command);
      return { behavior: 'deny', message: 'no' };
    };
    const script = [calls(bash('touch made && curl http://127.0.0.1:9/')), text('done')];
    (await w.run(script, 'go', { allowedTools: ['Bash(touch *)'], canUseTool })).good();
    assert.deepEqual(asked, ['touch made && curl http://127.0.0.1:9/']);
    assert.ok(!w.has('made'));
  });

  both('additionalDirectories are working folders', async (w) => {
    const beside = w.folder('beside');
    const write = { name: 'Write', input: { file_path: path.join(beside, 'made'), content: 'x' } };
    const options = { additionalDirectories: [beside], permissionMode: 'acceptEdits' };
    (await w.run([calls(write), text('done')], 'go', options)).good();
    assert.equal(readFileSync(path.join(beside, 'made'), 'utf8'), 'x');
  });
});

describe('permission modes', { concurrency: 4 }, () => {
  const write = (w) => calls({ name: 'Write', input: { file_path: w.path('made'), content: 'x' } });

  const asking = () => {
    const asked = [];
    const canUseTool = async (name, input) => {
      asked.push(name);
      return { behavior: 'deny', message: 'no' };
    };
    return { asked, canUseTool };
  };

  both('default asks before an edit', async (w) => {
    const { asked, canUseTool } = asking();
    const seen = (await w.run([write(w), text('done')], 'go', { canUseTool })).good();
    assert.deepEqual(asked, ['Write']);
    assert.equal(seen.init.permissionMode, 'default');
  });

  both('acceptEdits lets edits through and asks about the rest', async (w) => {
    const { asked, canUseTool } = asking();
    const script = [write(w), calls(bash('curl http://127.0.0.1:9/')), text('done')];
    const seen = (await w.run(script, 'go', { permissionMode: 'acceptEdits', canUseTool })).good();
    assert.deepEqual(asked, ['Bash']);
    assert.ok(w.has('made'));
    assert.equal(seen.init.permissionMode, 'acceptEdits');
  });

  both('plan changes nothing', async (w) => {
    const { canUseTool } = asking();
    const seen = (await w.run([write(w), text('done')], 'go', { permissionMode: 'plan', canUseTool })).good();
    assert.ok(!w.has('made'));
    assert.equal(seen.toolResults[0].is_error, true);
    assert.equal(seen.init.permissionMode, 'plan');
  });

  both('dontAsk denies without asking', async (w) => {
    const { asked, canUseTool } = asking();
    const seen = (await w.run([write(w), text('done')], 'go', { permissionMode: 'dontAsk', canUseTool })).good();
    assert.deepEqual(asked, []);
    assert.ok(!w.has('made'));
    assert.equal(seen.of('system', 'permission_denied')[0]?.decision_reason_type, 'mode');
  });

  both('bypassPermissions asks nobody', async (w) => {
    const options = {
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: true,
      env: { IS_SANDBOX: '1' },
    };
    (await w.run([write(w), calls(bash('touch other')), text('done')], 'go', options)).good();
    assert.ok(w.has('made') && w.has('other'));
  });

  both('bypassPermissions does not lift a deny rule', async (w) => {
    const options = {
      permissionMode: 'bypassPermissions',
      allowDangerouslySkipPermissions: true,
      disallowedTools: ['Bash(touch *)'],
      env: { IS_SANDBOX: '1' },
    };
    (await w.run(touch, 'go', options)).good();
    assert.ok(!w.has('made'));
  });
});
