// Making room and starting over: /compact, compaction by itself, /clear, and the commands a session answers itself.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe } from 'node:test';

import { bash, both, calls, every, newest, Prompts, text } from './harness.mjs';

/** A session of several prompts, each sent when the one before has its result. */
async function talk(w, script, said, options) {
  await w.model(script);
  const [first, ...rest] = said;
  const prompts = new Prompts().push(first);
  const seen = await w.read(w.query(prompts, options), (message) => {
    if (message.type !== 'result') return;
    if (rest.length > 0) prompts.push(rest.shift());
    else prompts.end();
  });
  assert.equal(seen.error, undefined, `${seen}`);
  return seen;
}

/** Callbacks that note what they are called with, in one list. */
function listening(events, answer = async () => ({})) {
  const inputs = [];
  const note = async (input) => {
    inputs.push(input);
    return answer(input);
  };
  return { inputs, hooks: Object.fromEntries(events.map((event) => [event, [{ hooks: [note] }]])) };
}

const summary = (said) => text(`<analysis>hm</analysis><summary>${said}</summary>`);
const messagesOf = (request) => JSON.stringify(request.body.messages);
const fullAfter = (command) => ({ ...calls(bash(command)), usage: { input_tokens: 970_000 } });

/** The frames between two results. */
function turn(seen, number) {
  const ends = seen.messages.flatMap((message, at) => (message.type === 'result' ? [at] : []));
  return seen.messages.slice(number === 0 ? 0 : ends[number - 1] + 1, ends[number] + 1);
}

const kinds = (frames) => frames.map((m) => (m.type === 'system' ? m.subtype : m.type));

describe('compaction', { concurrency: 4 }, () => {
  every('/compact replaces the conversation by its summary', async (w) => {
    const script = [text('first answer'), summary('THE GIST'), text('after')];
    const seen = await talk(w, script, ['the old days', '/compact keep names', 'next']);
    assert.deepEqual(seen.results.map((result) => result.result), ['first answer', '', 'after'], `${seen}`);
    const frames = turn(seen, 1).filter((m) => m.subtype !== 'session_state_changed');
    assert.deepEqual(kinds(frames), ['status', 'status', 'init', 'compact_boundary', 'user', 'user', 'result']);
    assert.equal(frames[0].status, 'compacting');
    assert.equal(frames[1].compact_result, 'success');
    assert.equal(frames[3].compact_metadata.trigger, 'manual');
    assert.equal(frames[3].compact_metadata.pre_tokens, 120);
    assert.match(frames[4].message.content, /THE GIST/);
    assert.equal(seen.results[1].num_turns, 0);
    const [, asked, after] = w.requests();
    assert.match(messagesOf(asked), /keep names/);
    assert.match(messagesOf(after), /THE GIST/);
    assert.doesNotMatch(messagesOf(after), /the old days|first answer/);
  });

  both('hooks hear of it, in order', async (w) => {
    const { inputs, hooks } = listening(['PreCompact', 'SessionStart']);
    await talk(w, [text('one'), summary('s')], ['a', '/compact in short'], { hooks });
    assert.deepEqual(inputs.map((input) => input.hook_event_name), ['PreCompact', 'SessionStart']);
    assert.deepEqual([inputs[0].trigger, inputs[0].custom_instructions], ['manual', 'in short']);
    assert.equal(inputs[1].source, 'compact');
  });

  newest('PostCompact gets the summary', async (w) => {
    const { inputs, hooks } = listening(['PreCompact', 'SessionStart', 'PostCompact']);
    await talk(w, [text('one'), summary('s')], ['a', '/compact'], { hooks });
    assert.deepEqual(inputs.map((input) => input.hook_event_name), ['PreCompact', 'SessionStart', 'PostCompact']);
    assert.match(inputs[2].compact_summary, /<summary>s<\/summary>/);
  });

  both('a hook can forbid it, and the conversation stays', async (w) => {
    const { hooks } = listening(['PreCompact'], async () => ({ decision: 'block', reason: 'not now' }));
    const seen = await talk(w, [text('one'), text('two')], ['the old days', '/compact', 'next'], { hooks });
    assert.match(seen.results[1].result, /not now/);
    assert.equal(seen.results[1].is_error, true);
    assert.equal(seen.results[2].result, 'two');
    assert.match(messagesOf(w.requests()[1]), /the old days/);
  });

  every('a full window is compacted in the middle of a turn', async (w) => {
    const script = [fullAfter('echo 1'), summary('s'), text('after')];
    const seen = (await w.run(script, 'go', { allowedTools: ['Bash'] })).good();
    assert.equal(seen.result.result, 'after');
    const [boundary] = seen.of('system', 'compact_boundary');
    assert.equal(boundary.compact_metadata.trigger, 'auto');
    assert.ok(boundary.compact_metadata.post_tokens < boundary.compact_metadata.pre_tokens);
    assert.equal(seen.result.num_turns, 3);
    assert.match(messagesOf(w.requests()[2]), /Summary:\\ns/);
  });

  both('the environment and the settings decide when', async (w) => {
    const some = { ...calls(bash('echo 1')), usage: { input_tokens: 80_000 } };
    const env = { CLAUDE_CODE_AUTO_COMPACT_WINDOW: '100000' };
    const seen = (await w.run([some, summary('s'), text('after')], 'go', { allowedTools: ['Bash'], env })).good();
    assert.equal(seen.of('system', 'compact_boundary').length, 1);
  });

  both('switched off, a full window ends the turn', async (w) => {
    const full = { ...calls(bash('echo 1')), usage: { input_tokens: 980_000 } };
    const env = { DISABLE_AUTO_COMPACT: '1' };
    const seen = await w.run([full, text('never')], 'go', { allowedTools: ['Bash'], env });
    assert.equal(seen.result.result, 'Prompt is too long');
    assert.equal(seen.result.terminal_reason, 'blocking_limit');
  });

  newest('a host changes while the session runs when that is', async (w) => {
    await w.model([text('one')]);
    const prompts = new Prompts().push('a');
    const query = w.query(prompts);
    const thresholds = [];
    const threshold = async () => thresholds.push((await query.getContextUsage()).autoCompactThreshold);
    await w.read(query, async (message) => {
      if (message.type !== 'result') return;
      await threshold();
      await query.applyFlagSettings({ autoCompactWindow: 200_000 });
      await threshold();
      await query.applyFlagSettings({ autoCompactEnabled: false });
      await threshold();
      prompts.end();
    });
    assert.deepEqual(thresholds, [967_000, 167_000, undefined]);
  });

  both('a long prompt with a picture that meets a full window stays whole', async (w) => {
    const long = `${'read this '.repeat(4000)}to the end`;
    const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
    const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
    const script = [{ ...text('one'), usage: { input_tokens: 970_000 } }, summary('THE GIST'), text('after')];
    const seen = await talk(w, script, ['the old days', [{ type: 'text', text: long }, picture]]);
    assert.equal(seen.results[1].result, 'after', `${seen}`);
    const sent = messagesOf(w.requests()[2]);
    for (const part of ['THE GIST', long, data]) assert.ok(sent.includes(part), sent);
    assert.ok(!sent.includes('the old days'), sent);
  });

  both('a summary that is longer than the conversation is not taken', async (w) => {
    const script = [text('one'), summary('word '.repeat(1000)), text('two')];
    const seen = await talk(w, script, ['the old days', '/compact', 'next']);
    assert.match(seen.results[1].result, /no smaller/);
    assert.equal(seen.results[2].result, 'two');
    assert.match(messagesOf(w.requests()[2]), /the old days/);
  });

  both('a compacted session is resumed with its summary', async (w) => {
    const script = [text('first'), summary('THE GIST'), text('resumed')];
    await w.model(script);
    const prompts = new Prompts().push('the old days');
    const seen = await w.read(w.query(prompts), (message, { results }) => {
      if (message.type !== 'result') return;
      if (results.length === 1) prompts.push('/compact');
      else prompts.end();
    });
    const again = (await w.read(w.query('go on', { resume: seen.init.session_id }))).good();
    assert.equal(again.result.result, 'resumed');
    const sent = messagesOf(w.requests()[2]);
    assert.match(sent, /THE GIST/);
    assert.doesNotMatch(sent, /the old days/);
  });
});

describe('commands', { concurrency: 4 }, () => {
  both('/clear begins another session', async (w) => {
    const seen = await talk(w, [text('one'), text('two')], ['old words', '/clear', 'new words']);
    const [before, cleared, after] = seen.results;
    const reset = seen.messages.find((m) => m.type === 'conversation_reset');
    assert.equal(reset.trigger, 'clear');
    assert.equal(reset.session_id, before.session_id);
    assert.notEqual(cleared.session_id, before.session_id);
    assert.equal(after.session_id, cleared.session_id);
    assert.deepEqual([cleared.result, cleared.num_turns, cleared.total_cost_usd], ['', 0, 0]);
    assert.doesNotMatch(messagesOf(w.requests()[1]), /old words/);
    const folder = path.join(w.config, 'projects', readdirSync(path.join(w.config, 'projects'))[0]);
    const file = (id) => readFileSync(path.join(folder, `${id}.jsonl`), 'utf8');
    assert.match(file(before.session_id), /old words/);
    assert.match(file(after.session_id), /new words/);
    assert.doesNotMatch(file(after.session_id), /old words/);
  });

  both('/clear is told to hooks', async (w) => {
    const { inputs, hooks } = listening(['SessionStart', 'SessionEnd']);
    const seen = await talk(w, [text('one')], ['a', '/clear'], { hooks });
    assert.deepEqual(inputs.slice(0, 2).map((input) => input.reason ?? input.source), ['clear', 'clear']);
    assert.deepEqual(inputs.slice(0, 2).map((input) => input.session_id), seen.results.map((r) => r.session_id));
  });

  both('/context and /cost are answered without the model', async (w) => {
    const seen = await talk(w, [text('one')], ['a', '/context', '/cost']);
    assert.match(seen.results[1].result, /^## Context Usage/);
    assert.match(seen.results[2].result, /Total cost: \$0\.0/);
    assert.equal(w.requests().length, 1);
  });

  both('a command that nobody knows goes to the model', async (w) => {
    const seen = (await w.run([text('hm')], '/nosuch thing')).good();
    assert.equal(seen.result.result, 'hm');
    assert.match(messagesOf(w.requests()[0]), /no such command/);
  });

  both('supportedCommands lists what there is', async (w) => {
    await w.model([text('hi')]);
    const prompts = new Prompts();
    const query = w.query(prompts);
    const reading = w.read(query, (message) => message.type === 'result' && prompts.end());
    const commands = await query.supportedCommands();
    prompts.push('go');
    const seen = await reading;
    const names = commands.flatMap((command) => [command.name, ...(command.aliases ?? [])]);
    for (const name of ['compact', 'clear', 'context', 'usage', 'cost', 'model']) assert.ok(names.includes(name), `${names}`);
    assert.ok(commands.every((command) => command.description && typeof command.argumentHint === 'string'));
    assert.deepEqual(seen.init.slash_commands, commands.map((command) => command.name));
  });

  both('commands can be switched off', async (w) => {
    const seen = (await w.run([text('hm')], '/context', { extraArgs: { 'disable-slash-commands': null } })).good();
    assert.equal(seen.result.result, 'hm');
    assert.deepEqual(seen.init.slash_commands, []);
  });
});
