// Sessions over several runs: resume, continue, fork, cut; the SDK's own functions on the files that Lathe writes;
// and sessions that live in a store of the host.
//
// The SDK's functions find their folder through this process's environment, so all cases of this file share one
// configuration folder; each has a working folder of its own, and with it a project of its own.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe } from 'node:test';

import { bash, calls, every, newest, Prompts, text } from './harness.mjs';

const config = mkdtempSync(path.join(tmpdir(), 'lathe-conformance-config-'));
process.env.CLAUDE_CONFIG_DIR = config;
after(() => rmSync(config, { recursive: true, force: true, maxRetries: 5 }));

const ANSWERS = Array.from({ length: 12 }, (_, nth) => text(`answer ${nth + 1}`));

/** One more run in the same world; the model goes on where it was. */
async function turn(w, prompt, options = {}) {
  if (!w.server) await w.model(ANSWERS);
  const env = { CLAUDE_CONFIG_DIR: config, ...options.env };
  return w.read(w.query(prompt, { ...options, env }));
}

/** What the model was sent last, as text. */
const sent = (w) => JSON.stringify(w.requests().at(-1).body.messages);

/** The lines of a session's file, parsed. */
function fileOf(id, folder = config) {
  const projects = path.join(folder, 'projects');
  const found = readdirSync(projects).map((key) => path.join(projects, key, `${id}.jsonl`)).find((at) => existsSync(at));
  return readFileSync(found, 'utf8').split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

/** Fails unless the run was refused with a text that begins so. */
function refused(seen, beginning) {
  const texts = [...seen.results.flatMap((result) => result.errors ?? []), String(seen.error)];
  assert.ok(texts.some((said) => said.includes(beginning)), `${beginning}\n${seen}`);
}

describe('a session that goes on', { concurrency: 4 }, () => {
  every('resume keeps the id and the words, and shows nothing again', async (w) => {
    const first = (await turn(w, 'first')).good();
    const id = first.result.session_id;
    const second = (await turn(w, 'second', { resume: id })).good();
    assert.equal(second.result.session_id, id);
    assert.equal(second.of('assistant').length, 1);
    for (const said of ['first', 'answer 1', 'second']) assert.ok(sent(w).includes(said), sent(w));
    assert.ok(second.result.total_cost_usd > first.result.total_cost_usd);
  });

  every('continue takes the newest of the folder, and starts one where there is none', async (w) => {
    const first = (await turn(w, 'first', { continue: true })).good();
    const second = (await turn(w, 'second', { continue: true })).good();
    assert.equal(second.result.session_id, first.result.session_id);
    assert.ok(sent(w).includes('answer 1'));
  });

  every('a fork knows everything and has an id of its own', async (w) => {
    const id = (await turn(w, 'first')).good().result.session_id;
    const before = fileOf(id);
    const fork = (await turn(w, 'second', { resume: id, forkSession: true })).good();
    assert.notEqual(fork.result.session_id, id);
    assert.ok(sent(w).includes('answer 1'));
    assert.deepEqual(fileOf(id), before);
  });

  every('resumeSessionAt cuts behind the message', async (w) => {
    const first = (await turn(w, 'first')).good();
    const id = first.result.session_id;
    await turn(w, 'second', { resume: id });
    const at = first.of('assistant')[0].uuid;
    const cut = (await turn(w, 'instead', { resume: id, resumeSessionAt: at })).good();
    assert.equal(cut.result.session_id, id);
    assert.ok(sent(w).includes('answer 1') && !sent(w).includes('second'), sent(w));
    // The branch is the conversation from now on.
    await turn(w, 'more', { resume: id });
    assert.ok(sent(w).includes('instead') && !sent(w).includes('second'), sent(w));
  });

  every('resumeSessionAt of a message that is not there is refused', async (w) => {
    const id = (await turn(w, 'first')).good().result.session_id;
    const nowhere = randomUUID();
    const seen = await turn(w, 'x', { resume: id, resumeSessionAt: nowhere });
    refused(seen, `No message found with message.uuid of: ${nowhere}`);
    assert.equal(w.requests().length, 1);
  });

  newest('resumeDropsTurn lets the cut pass that drops that turn, and no other', async (w) => {
    const first = (await turn(w, 'first')).good();
    const id = first.result.session_id;
    await turn(w, 'second', { resume: id });
    const [, second] = fileOf(id).filter((record) => record.type === 'user').map((record) => record.uuid);
    const resumeSessionAt = first.of('assistant')[0].uuid;
    const wrong = await turn(w, 'x', { resume: id, resumeSessionAt, resumeDropsTurn: randomUUID() });
    refused(wrong, 'Resume rejected by --resume-drops-turn:');
    assert.equal(w.requests().length, 2);
    (await turn(w, 'third', { resume: id, resumeSessionAt, resumeDropsTurn: second })).good();
    assert.ok(!sent(w).includes('second'));
  });

  newest('a turn that was dropped is asked again under the uuid of its prompt', async (w) => {
    const first = (await turn(w, 'first')).good();
    const resume = first.result.session_id;
    const uuid = randomUUID();
    async function* again() {
      const message = { role: 'user', content: 'second' };
      yield { type: 'user', uuid, session_id: '', message, parent_tool_use_id: null };
    }
    assert.equal((await turn(w, again(), { resume })).good().result.result, 'answer 2');
    const at = { resume, resumeSessionAt: first.of('assistant')[0].uuid, resumeDropsTurn: uuid };
    assert.equal((await turn(w, again(), at)).good().result.result, 'answer 3');
    assert.ok(!sent(w).includes('answer 2'), sent(w));
    const read = JSON.stringify(await w.sdk.getSessionMessages(resume, { dir: w.cwd }));
    assert.ok(read.includes('answer 3') && !read.includes('answer 2'), read);
  });

  every('a session that is not there is refused', async (w) => {
    const id = randomUUID();
    refused(await turn(w, 'x', { resume: id }), `No conversation found with session ID: ${id}`);
    assert.deepEqual(w.requests(), []);
  });

  every('a session is taken up by a query with several prompts', async (w) => {
    const id = (await turn(w, 'first')).good().result.session_id;
    const prompts = new Prompts().push('second');
    const query = w.query(prompts, { resume: id, env: { CLAUDE_CONFIG_DIR: config } });
    const seen = await w.read(query, (message, { results }) => {
      if (message.type === 'result') results.length < 2 ? prompts.push('third') : prompts.end();
    });
    assert.equal(seen.results.length, 2);
    assert.ok(seen.messages.every((m) => m.session_id === undefined || m.session_id === id));
    for (const said of ['answer 1', 'second', 'answer 2', 'third']) assert.ok(sent(w).includes(said), sent(w));
  });

  newest('persistSession false leaves no file', async (w) => {
    const seen = (await turn(w, 'first', { persistSession: false })).good();
    assert.throws(() => fileOf(seen.result.session_id));
  });
});

describe("the SDK's functions on Lathe's files", { concurrency: 4 }, () => {
  const tools = [calls(bash('echo one'), bash('echo two')), text('done'), text('again')];

  newest('list, info and messages', async (w) => {
    await w.model(tools);
    const seen = (await turn(w, 'do it')).good();
    const id = seen.result.session_id;
    (await turn(w, 'once more', { resume: id })).good();
    const listed = await w.sdk.listSessions({ dir: w.cwd });
    assert.deepEqual(listed.map((session) => session.sessionId), [id]);
    const info = await w.sdk.getSessionInfo(id, { dir: w.cwd });
    assert.equal(info.firstPrompt, 'do it');
    assert.equal(info.summary, 'once more');
    assert.equal(info.cwd, w.cwd);
    const messages = await w.sdk.getSessionMessages(id, { dir: w.cwd });
    const shape = messages.map((m) => [m.type, [m.message.content].flat().map((block) => block.type).join()]);
    assert.deepEqual(shape, [
      ['user', 'text'], ['assistant', 'tool_use'], ['assistant', 'tool_use'], ['user', 'tool_result'],
      ['user', 'tool_result'], ['assistant', 'text'], ['user', 'text'], ['assistant', 'text'],
    ]);
    // What was shown has the ids that are in the file.
    const known = new Set(messages.map((message) => message.uuid));
    for (const m of seen.messages.filter((m) => m.type === 'assistant' || m.type === 'user')) assert.ok(known.has(m.uuid));
    assert.deepEqual(await w.sdk.listSubagents(id, { dir: w.cwd }), []);
  });

  newest('rename, tag and delete', async (w) => {
    const id = (await turn(w, 'first')).good().result.session_id;
    const options = { dir: w.cwd };
    await w.sdk.renameSession(id, 'The parser', options);
    await w.sdk.tagSession(id, 'work', options);
    const info = await w.sdk.getSessionInfo(id, options);
    assert.deepEqual([info.customTitle, info.summary, info.tag], ['The parser', 'The parser', 'work']);
    // Lathe knows the session by its new name, and does not lose it.
    const named = (await turn(w, 'second', { resume: 'The parser' })).good();
    assert.equal(named.result.session_id, id);
    assert.equal((await w.sdk.getSessionInfo(id, options)).customTitle, 'The parser');
    await w.sdk.tagSession(id, null, options);
    assert.equal((await w.sdk.getSessionInfo(id, options)).tag, undefined);
    await w.sdk.deleteSession(id, options);
    assert.deepEqual(await w.sdk.listSessions(options), []);
    refused(await turn(w, 'x', { resume: id }), 'No conversation found');
  });

  newest('a title outlives a long run, and the newest counts', async (w) => {
    await w.model([text('first'), text('word '.repeat(40_000)), text('again')]);
    const id = (await turn(w, 'first')).good().result.session_id;
    const options = { dir: w.cwd };
    await w.sdk.renameSession(id, 'The parser', options);
    (await turn(w, 'at length', { resume: id })).good();
    assert.equal((await w.sdk.getSessionInfo(id, options)).customTitle, 'The parser');
    await w.sdk.renameSession(id, 'The lexer', options);
    const named = (await turn(w, 'more', { resume: 'The lexer' })).good();
    assert.equal(named.result.session_id, id);
    assert.equal((await w.sdk.getSessionInfo(id, options)).customTitle, 'The lexer');
  });

  newest('a fork made by the SDK goes on in Lathe', async (w) => {
    const first = (await turn(w, 'first')).good();
    const id = first.result.session_id;
    (await turn(w, 'second', { resume: id })).good();
    const upToMessageId = first.of('assistant')[0].uuid;
    const { sessionId } = await w.sdk.forkSession(id, { dir: w.cwd, upToMessageId, title: 'A branch' });
    const seen = (await turn(w, 'third', { resume: sessionId })).good();
    assert.equal(seen.result.session_id, sessionId);
    assert.ok(sent(w).includes('answer 1') && !sent(w).includes('second'), sent(w));
    assert.equal((await w.sdk.getSessionMessages(sessionId, { dir: w.cwd })).length, 4);
  });

  newest('a fork made by the SDK keeps what a compaction kept', async (w) => {
    const full = { ...calls(bash('echo kept')), usage: { input_tokens: 970_000 } };
    const gist = text('<summary>THE GIST</summary>');
    await w.model([text(`long ${'word '.repeat(5000)}`), full, gist, text('after'), text('forked')]);
    const id = (await turn(w, 'first')).good().result.session_id;
    (await turn(w, 'second', { resume: id, allowedTools: ['Bash'] })).good();
    const read = await w.sdk.getSessionMessages(id, { dir: w.cwd });
    assert.match(JSON.stringify(read), /THE GIST.*echo kept.*after/, 'the SDK finds it');
    const { sessionId } = await w.sdk.forkSession(id, { dir: w.cwd });
    (await turn(w, 'third', { resume: sessionId })).good();
    assert.match(sent(w), /THE GIST.*echo kept.*after.*third/);
  });

  newest('a fork made by Lathe is read by the SDK', async (w) => {
    const id = (await turn(w, 'first')).good().result.session_id;
    const fork = (await turn(w, 'second', { resume: id, forkSession: true })).good().result.session_id;
    const words = (messages) => messages.map((m) => [m.message.content].flat().map((block) => block.text ?? block).join());
    const read = await w.sdk.getSessionMessages(fork, { dir: w.cwd });
    assert.deepEqual(words(read), ['first', 'answer 1', 'second', 'answer 2']);
    assert.equal((await w.sdk.listSessions({ dir: w.cwd })).length, 2);
  });

  newest('a cut shows the new branch', async (w) => {
    const first = (await turn(w, 'first')).good();
    const id = first.result.session_id;
    await turn(w, 'second', { resume: id });
    await turn(w, 'instead', { resume: id, resumeSessionAt: first.of('assistant')[0].uuid });
    const read = JSON.stringify(await w.sdk.getSessionMessages(id, { dir: w.cwd }));
    assert.ok(read.includes('instead') && !read.includes('second'), read);
  });
});

describe('sessions in a store of the host', { concurrency: 4 }, () => {
  newest('the store holds what the file holds', async (w) => {
    await w.model([calls(bash('echo hi')), text('done')]);
    const store = new w.sdk.InMemorySessionStore();
    const seen = (await turn(w, 'first', { sessionStore: store })).good();
    assert.equal(seen.of('transcript_mirror').length, 0, 'the SDK keeps them to itself');
    const id = seen.result.session_id;
    const [{ sessionId }] = await store.listSessions(w.cwd.replace(/[^A-Za-z0-9]/g, '-'));
    assert.equal(sessionId, id);
    const key = { projectKey: w.cwd.replace(/[^A-Za-z0-9]/g, '-'), sessionId: id };
    assert.deepEqual(store.getEntries(key), fileOf(id));
    const messages = await w.sdk.getSessionMessages(id, { dir: w.cwd, sessionStore: store });
    assert.equal(messages.length, 4);
    assert.equal((await w.sdk.listSessions({ dir: w.cwd, sessionStore: store })).length, 1);
  });

  for (const [name, how] of [['resume', (id) => ({ resume: id })], ['continue', () => ({ continue: true })]]) {
    newest(`${name} from a store, with nothing on the disk`, async (w) => {
      const store = new w.sdk.InMemorySessionStore();
      const id = (await turn(w, 'first', { sessionStore: store })).good().result.session_id;
      const empty = { CLAUDE_CONFIG_DIR: w.folder('empty') };
      const second = (await turn(w, 'second', { ...how(id), sessionStore: store, env: empty })).good();
      assert.equal(second.result.session_id, id);
      assert.ok(sent(w).includes('answer 1'), sent(w));
      const third = (await turn(w, 'third', { ...how(id), sessionStore: store, env: empty })).good();
      assert.equal(third.result.session_id, id);
      assert.ok(sent(w).includes('answer 2'), 'what the second run said is in the store');
      assert.ok(third.result.total_cost_usd > second.result.total_cost_usd);
    });
  }

  newest('a fork of a stored session is stored from its beginning', async (w) => {
    const store = new w.sdk.InMemorySessionStore();
    const id = (await turn(w, 'first', { sessionStore: store })).good().result.session_id;
    const fork = (await turn(w, 'second', { resume: id, forkSession: true, sessionStore: store })).good();
    const options = { dir: w.cwd, sessionStore: store };
    const messages = await w.sdk.getSessionMessages(fork.result.session_id, options);
    assert.equal(messages.length, 4, JSON.stringify(messages));
    assert.equal((await w.sdk.getSessionMessages(id, options)).length, 2);
  });

  newest('a store that fails is reported, and the run goes on', async (w) => {
    const store = {
      append: async () => { throw new Error('the store is closed'); },
      load: async () => null,
    };
    const seen = (await turn(w, 'first', { sessionStore: store })).good();
    const errors = seen.of('system', 'mirror_error');
    assert.ok(errors.length >= 1 && /the store is closed/.test(errors[0].error), `${seen}`);
  });
});
