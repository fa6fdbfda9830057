// Hooks and settings as files, and the events that only a running session raises: what the SDK loads through
// settingSources, what hooks of every kind do, and what changes while a session runs.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { describe } from 'node:test';

import { allow, bash, both, calls, newest, Prompts, text, textOf } from './harness.mjs';

const command = (line, more) => ({ type: 'command', command: line, ...more });
const on = (event, ...hooks) => ({ [event]: [{ hooks }] });
const specific = (event, fields) => ({ hookSpecificOutput: { hookEventName: event, ...fields } });
const says = (output) => command(`cat <<'END'\n${JSON.stringify(output)}\nEND`);
const touch = [calls(bash('touch made')), text('done')];

/** Writes the user's settings file. */
function userSettings(w, settings) {
  const file = path.join(w.config, 'settings.json');
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings));
  return file;
}

/** What a run with the user's hooks gives. */
async function withHooks(w, script, hooks, options = {}) {
  userSettings(w, { hooks, ...options.settings });
  delete options.settings;
  return w.run(script, 'go', { settingSources: ['user'], allowedTools: ['Bash', 'Read'], ...options });
}

/** A callback that remembers what it was told. */
function callback(event, answer = {}, matcher) {
  const inputs = [];
  const hooks = [async (input) => { inputs.push(input); return answer; }];
  return { inputs, hooks: { [event]: [matcher === undefined ? { hooks } : { matcher, hooks }] } };
}

describe('hooks of settings files', { concurrency: 4 }, () => {
  both('a session starts with what a command prints, and its frames are shown', async (w) => {
    const seen = (await withHooks(w, [text('done')], on('SessionStart', command('echo the build is red')))).good();
    assert.match(JSON.stringify(w.requests()[0].body), /SessionStart:startup hook success: the build is red/);
    assert.deepEqual(seen.of('system', 'hook_started').map((m) => m.hook_name), ['SessionStart:startup']);
    const [response] = seen.of('system', 'hook_response');
    assert.equal(response.stdout, 'the build is red\n');
    assert.equal(response.exit_code, 0);
    assert.equal(response.outcome, 'success');
  });

  both('exit code 2 denies a call', async (w) => {
    const seen = (await withHooks(w, touch, on('PreToolUse', command('echo not today >&2; exit 2')))).good();
    assert.ok(!w.has('made'));
    assert.equal(textOf(seen.toolResults[0]).includes('not today'), true);
    assert.equal(seen.of('system', 'hook_started').length, 0, 'frames of other events were not asked for');
  });

  newest('all frames are shown to those who ask', async (w) => {
    const hooks = { ...on('PreToolUse', command('for i in 1 2 3; do echo line$i; sleep 0.7; done')), ...on('Stop', command('echo bye')) };
    const seen = (await withHooks(w, touch, hooks, { includeHookEvents: true })).good();
    const names = seen.of('system', 'hook_started').map((m) => m.hook_name);
    assert.deepEqual(names, ['PreToolUse:Bash', 'Stop']);
    const progress = seen.of('system', 'hook_progress').filter((m) => m.hook_event === 'PreToolUse');
    assert.ok(progress.length >= 1, `${seen}`);
    assert.ok(progress.every((m) => m.stdout.startsWith('line1\n') && m.output === m.stdout));
    const response = seen.of('system', 'hook_response').find((m) => m.hook_event === 'PreToolUse');
    assert.equal(response.stdout, 'line1\nline2\nline3\n');
    assert.equal(new Set([...progress, response].map((m) => m.hook_id)).size, 1);
  });

  both('no sources, no hooks', async (w) => {
    userSettings(w, { hooks: on('PreToolUse', command('exit 2')) });
    (await w.run(touch, 'go', { settingSources: [], allowedTools: ['Bash'] })).good();
    assert.ok(w.has('made'));
  });

  both('a project\'s hooks run only where somebody trusts it', async (w) => {
    const hooks = on('PreToolUse', command('touch hooked'));
    w.file('.claude/settings.json', { hooks });
    const options = { settingSources: ['project'], allowedTools: ['Bash'] };
    (await w.run(touch, 'go', options)).good();
    assert.ok(w.has('made') && !w.has('hooked'));
    await w.complaint(/Ignoring hooks from .claude\/settings.json: this workspace has not been trusted/);
    const state = { projects: { [w.cwd]: { hasTrustDialogAccepted: true } } };
    writeFileSync(path.join(w.config, '.claude.json'), JSON.stringify(state));
    w.server.kill('SIGKILL');
    (await w.run(touch, 'go', options)).good();
    assert.ok(w.has('hooked'));
  });

  both('disableAllHooks leaves those of the host', async (w) => {
    const { inputs, hooks } = callback('PreToolUse');
    const settings = { disableAllHooks: true };
    (await withHooks(w, touch, on('PreToolUse', command('exit 2')), { settings, hooks })).good();
    assert.ok(w.has('made'));
    assert.equal(inputs.length, 1);
  });

  both('a hook that hangs is ended, reported, and stops nothing', async (w) => {
    const hook = command('echo $$ > pid; sleep 600 & sleep 600', { timeout: 1 });
    const seen = (await withHooks(w, touch, on('PreToolUse', hook))).good();
    assert.ok(w.has('made'));
    const [notice] = seen.of('system', 'informational').filter((m) => m.tag === 'hook_no_verdict');
    assert.equal(notice.hook_no_verdict.timed_out, true);
    const pid = readFileSync(w.path('pid'), 'utf8').trim();
    assert.ok(!existsSync(`/proc/${pid}`));
  });

  both('a model judges for a prompt hook', async (w) => {
    const verdict = (ok) => text(JSON.stringify({ ok, reason: 'too risky' }));
    const script = { turns: touch, routes: [{ when: { has_tools: false }, turns: [verdict(false)] }], at_end: 'error' };
    const hook = { type: 'prompt', prompt: 'Is this safe? $ARGUMENTS' };
    const seen = (await withHooks(w, script, on('PreToolUse', hook))).good();
    assert.ok(!w.has('made'));
    assert.match(textOf(seen.toolResults[0]), /too risky/);
    const asked = w.requests().find((request) => !request.body.tools);
    assert.equal(asked.body.output_config.format.type, 'json_schema');
    assert.match(JSON.stringify(asked.body.messages), /touch made/);
    assert.equal(asked.body.model, w.requests()[0].body.model);
  });

  both('an endpoint answers for an http hook', async (w) => {
    const got = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (data) => (body += data));
      request.on('end', () => {
        got.push({ headers: request.headers, input: JSON.parse(body) });
        response.end(JSON.stringify(specific('PreToolUse', { permissionDecision: 'deny', permissionDecisionReason: 'says the server' })));
      });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${server.address().port}/hook`;
    const hook = { type: 'http', url, headers: { 'x-token': '$HOOK_TOKEN' }, allowedEnvVars: ['HOOK_TOKEN'] };
    try {
      const seen = (await withHooks(w, touch, on('PreToolUse', hook), { env: { HOOK_TOKEN: 't0k' } })).good();
      assert.match(textOf(seen.toolResults[0]), /says the server/);
      assert.equal(got[0].headers['x-token'], 't0k');
      assert.equal(got[0].input.tool_input.command, 'touch made');
    } finally {
      server.close();
    }
  });

  both('variables that a hook exports reach commands', async (w) => {
    const hooks = on('SessionStart', command('echo "export FRUIT=pear" >> "$CLAUDE_ENV_FILE"'));
    const seen = (await withHooks(w, [calls(bash('echo [$FRUIT]')), text('done')], hooks)).good();
    assert.equal(textOf(seen.toolResults[0]), '[pear]');
  });

  both('a hook may go on in the background and is heard later', async (w) => {
    const note = specific('PreToolUse', { additionalContext: 'lint is clean' });
    const line = `[ -e once ] && exit 0; touch once; while [ ! -e asked ]; do sleep 0.05; done; echo '${JSON.stringify(note)}'`;
    const heard = { when: { body: { '/messages': { contains: 'lint is clean' } } }, text: 'done' };
    const script = { turns: [heard, calls(bash('touch asked; sleep 0.05'))], at_end: 'repeat' };
    const seen = (await withHooks(w, script, on('PreToolUse', command(line, { async: true })), { maxTurns: 300 })).good();
    assert.equal(seen.result.result, 'done');
  });

  both('commands know where they are', async (w) => {
    const line = 'env > "$CLAUDE_PROJECT_DIR/env"; cat > "$CLAUDE_PROJECT_DIR/input"';
    const seen = (await withHooks(w, touch, on('PreToolUse', command(line)))).good();
    const env = readFileSync(w.path('env'), 'utf8');
    assert.match(env, new RegExp(`^CLAUDE_PROJECT_DIR=${w.cwd}$`, 'm'));
    assert.match(env, new RegExp(`^CLAUDE_CODE_SESSION_ID=${seen.init.session_id}$`, 'm'));
    assert.match(env, /^CLAUDECODE=1$/m);
    assert.match(env, /^CLAUDE_CODE_ENTRYPOINT=sdk-ts$/m);
    assert.equal(JSON.parse(readFileSync(w.path('input'), 'utf8')).tool_name, 'Bash');
  });
});

describe('events of a running session', { concurrency: 4 }, () => {
  const several = (...callbacks) => Object.assign({}, ...callbacks.map((one) => one.hooks));

  newest('folders, instructions, texts and permission questions are told', async (w) => {
    w.file('deep/CLAUDE.md', 'use tabs here');
    w.file('deep/a.txt', 'x');
    const [cwd, loaded, display, notified] = ['CwdChanged', 'InstructionsLoaded', 'MessageDisplay', 'Notification'].map((event) => callback(event));
    const script = [
      calls(bash('cd deep')),
      calls({ name: 'Read', input: { file_path: w.path('deep/a.txt') } }),
      calls(bash('touch made')),
      text('done'),
    ];
    const options = { hooks: several(cwd, loaded, display, notified), settingSources: ['project'], canUseTool: allow };
    (await w.run(script, 'go', options)).good();
    assert.deepEqual(cwd.inputs.map((input) => [input.old_cwd, input.new_cwd]), [[w.cwd, w.path('deep')]]);
    assert.equal(loaded.inputs.length, 1);
    assert.equal(loaded.inputs[0].file_path, w.path('deep/CLAUDE.md'));
    assert.equal(loaded.inputs[0].load_reason, 'nested_traversal');
    assert.equal(loaded.inputs[0].trigger_file_path, w.path('deep/a.txt'));
    assert.match(JSON.stringify(w.requests()[2].body.messages.at(-1)), /use tabs here/);
    assert.deepEqual(display.inputs.map((input) => input.delta), ['done']);
    assert.ok(notified.inputs.length >= 1);
    assert.ok(notified.inputs.every((input) => input.notification_type === 'permission_prompt'));
  });

  newest('a file that somebody waits for is told', async (w) => {
    const { inputs, hooks } = callback('FileChanged', {}, '.env');
    const script = [calls(bash('echo A=1 > .env')), calls(bash('rm .env')), text('done')];
    (await w.run(script, 'go', { hooks, allowedTools: ['Bash'] })).good();
    assert.deepEqual(inputs.map((input) => [input.event, input.file_path]), [['add', w.path('.env')], ['unlink', w.path('.env')]]);
  });

  /** A session of two turns; the settings file changes in between. */
  async function edited(w, before, after, options = {}) {
    userSettings(w, before);
    await w.model([text('first'), calls(bash('touch made')), text('done')]);
    const prompts = new Prompts().push('one');
    const query = w.query(prompts, { settingSources: ['user'], ...options });
    return w.read(query, (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) {
        userSettings(w, after);
        prompts.push('two');
      } else prompts.end();
    });
  }
  const allowBash = { permissions: { allow: ['Bash'] } };

  both('a rule that is added while a session runs counts', async (w) => {
    const seen = await edited(w, allowBash, { permissions: { allow: ['Bash'], deny: ['Bash(touch *)'] } });
    assert.ok(!w.has('made'), `${seen}`);
    assert.equal(seen.results[1].permission_denials.length, 1);
  });

  both('so does one that is taken away', async (w) => {
    await edited(w, { permissions: { allow: ['Bash'], deny: ['Bash(touch *)'] } }, allowBash);
    assert.ok(w.has('made'));
  });

  both('a broken file changes nothing and is reported once', async (w) => {
    const deny = { permissions: { allow: ['Bash'], deny: ['Bash(touch *)'] } };
    const seen = await edited(w, deny, '{"permissions": {"allow": ["Bash"],,');
    assert.ok(!w.has('made'), 'what was denied stays denied');
    const said = seen.of('system', 'informational').filter((m) => m.tag === 'settings_changed');
    assert.equal(said.length, 1, `${seen}`);
    assert.match(said[0].content, /settings\.json:1:\d+/);
  });

  newest('hooks hear of a change and may keep it out', async (w) => {
    const { inputs, hooks } = callback('ConfigChange', { decision: 'block', reason: 'frozen' });
    const seen = await edited(w, allowBash, { permissions: { deny: ['Bash'] } }, { hooks });
    assert.equal(inputs.length, 1);
    assert.equal(inputs[0].source, 'user_settings');
    assert.equal(inputs[0].file_path, path.join(w.config, 'settings.json'));
    assert.ok(w.has('made'), `${seen}`);
  });

  both('hooks and variables of a changed file count', async (w) => {
    const after = { ...allowBash, env: { FRUIT: 'pear' }, hooks: on('PreToolUse', command('echo $FRUIT > hooked')) };
    await edited(w, allowBash, after);
    assert.equal(readFileSync(w.path('hooked'), 'utf8'), 'pear\n');
  });
});
