// What every case needs: a scripted model, an empty home and working folder, and a query of one of the two SDK
// generations against the program in LATHE_BIN. Cases say what the model answers and look at what came out.
//
// `both` makes one test for each generation, `newest` one for the current SDK, `every` adds the first SDK of the seed
// era, where that matters. A case that shows a known defect
// carries `{ todo: 'why' }`: it still runs, and its failure is reported without failing the suite.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

// The SDKs watch over the end of their child with timers of seconds, which would hold up the end of every test
// file. Such a timer need not keep node alive: as long as there is a child, the child does.
const realSetTimeout = globalThis.setTimeout;
globalThis.setTimeout = Object.assign((run, ms, ...rest) => {
  const timer = realSetTimeout(run, ms, ...rest);
  if (ms >= 1000) timer.unref();
  return timer;
}, realSetTimeout);

const generations = {
  newest: { name: 'newest', sdk: await import('@anthropic-ai/claude-agent-sdk') },
  // LATHE_SEED_SDK names the sdk.mjs of another version of that era, to try it by hand.
  seed: { name: 'seed era', sdk: await import(process.env.LATHE_SEED_SDK ?? 'sdk-seed') },
  first: { name: 'seed era, first', sdk: await import('sdk-seed-first') },
};

export const binary = process.env.LATHE_BIN;
assert.ok(binary && existsSync(binary), 'LATHE_BIN must name the built lathe');

/** How long one case may take. Far more than it needs: the machine may be busy. */
const CASE_MS = 60_000;

/** One test for each generation: `both(name, async (world) => …)`, optionally with node:test options before. */
export function both(name, ...rest) {
  define(generations.newest, name, rest);
  define(generations.seed, name, rest);
}

/** One test for each generation, and one for the first SDK of the seed era. */
export function every(name, ...rest) {
  both(name, ...rest);
  define(generations.first, name, rest);
}

/** One test with the current SDK, for what the seed era did not have. */
export function newest(name, ...rest) {
  define(generations.newest, name, rest);
}

function define(generation, name, rest) {
  const body = rest.at(-1);
  const options = rest.length > 1 ? rest[0] : {};
  test(`${name} (${generation.name})`, { timeout: CASE_MS, ...options }, async (t) => {
    const world = new World(generation);
    t.signal.addEventListener('abort', () => world.close());
    try {
      await body(world);
    } finally {
      world.close();
      await world.remove();
    }
  });
}

/** Everything one case owns. `close` ends it, also when the case was given up, `remove` removes what is left. */
export class World {
  constructor(generation) {
    this.sdk = generation.sdk;
    this.isSeed = generation !== generations.newest;
    // Whether a limit or an interrupt ends a turn as an error: the seed era would throw on it.
    this.endsAsError = !this.isSeed;
    this.root = mkdtempSync(path.join(tmpdir(), 'lathe-conformance-'));
    this.cwd = this.folder('work');
    this.home = this.folder('home');
    this.config = this.folder('home/.claude');
    this.log = path.join(this.root, 'requests.jsonl');
    this.stderr = '';
    this.queries = [];
  }

  folder(name) {
    const made = path.join(this.root, name);
    mkdirSync(made, { recursive: true });
    return made;
  }

  /** Writes a file below the working folder. */
  file(name, content) {
    const at = this.path(name);
    mkdirSync(path.dirname(at), { recursive: true });
    writeFileSync(at, typeof content === 'string' ? content : JSON.stringify(content));
    return at;
  }

  path(name) {
    return path.join(this.cwd, name);
  }

  has(name) {
    return existsSync(this.path(name));
  }

  /** Starts the scripted model: a list of turns, or a whole script. */
  async model(script) {
    const file = path.join(this.root, 'script.json');
    writeFileSync(file, JSON.stringify(Array.isArray(script) ? { turns: script, at_end: 'error' } : script));
    const args = ['model', 'serve', file, '--port', '0', '--log', this.log];
    this.server = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let complaint = '';
    this.server.stderr.on('data', (data) => (complaint += data));
    this.url = await new Promise((resolve, reject) => {
      createInterface({ input: this.server.stdout }).once('line', resolve);
      this.server.once('exit', () => reject(new Error(`the scripted model did not start: ${complaint}`)));
      this.server.once('error', reject);
    });
  }

  /** The requests the model got, as parsed log lines. */
  requests() {
    if (!existsSync(this.log)) return [];
    const lines = readFileSync(this.log, 'utf8').split('\n').filter(Boolean);
    return lines.map((line) => JSON.parse(line)).filter((line) => line.target.startsWith('/v1/messages'));
  }

  options(options = {}) {
    const { env, ...rest } = options;
    return {
      pathToClaudeCodeExecutable: binary,
      cwd: this.cwd,
      env: {
        PATH: process.env.PATH,
        HOME: this.home,
        CLAUDE_CONFIG_DIR: this.config,
        ANTHROPIC_BASE_URL: this.url,
        ANTHROPIC_API_KEY: 'test',
        ...env,
      },
      stderr: (text) => (this.stderr += text),
      abortController: new AbortController(),
      ...rest,
    };
  }

  /** Waits for a line on stderr, which reaches node on a way of its own: the end of a run may be known before. */
  async complaint(fits) {
    await until(`${fits} on stderr`, () => fits.test(this.stderr));
  }

  /** A query that this world will close. */
  query(prompt, options) {
    const query = this.sdk.query({ prompt, options: this.options(options) });
    this.queries.push(query);
    return query;
  }

  /** Reads a query to its end; `each` may act on what comes by. */
  async read(query, each = () => {}) {
    const seen = new Seen();
    try {
      for await (const message of query) {
        seen.messages.push(message);
        await each(message, seen);
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      seen.error = error;
    }
    seen.stderr = this.stderr;
    return seen;
  }

  /** A whole run: script, prompt, options. */
  async run(script, prompt, options) {
    await this.model(script);
    return this.read(this.query(prompt, options));
  }

  close() {
    for (const query of this.queries) query.close();
    this.server?.kill('SIGKILL');
  }

  /** Removes the folders. A program that was told to end may still write: the removal is tried until it has. */
  async remove() {
    await until(`${this.root} to be removed`, () => {
      try {
        rmSync(this.root, { recursive: true, force: true });
        return true;
      } catch (error) {
        if (error.code === 'ENOTEMPTY') return false;
        throw error;
      }
    });
  }
}

/** What a query gave. */
export class Seen {
  messages = [];
  error = undefined;

  of(type, subtype) {
    return this.messages.filter((m) => m.type === type && (subtype === undefined || m.subtype === subtype));
  }

  get results() {
    return this.of('result');
  }

  /** The only result. */
  get result() {
    assert.equal(this.results.length, 1, `one result wanted:\n${this}`);
    return this.results[0];
  }

  get init() {
    const inits = this.of('system', 'init');
    assert.ok(inits.length > 0, `no init:\n${this}`);
    return inits[0];
  }

  /** The content blocks of one type, in order. */
  blocks(type) {
    const frames = this.messages.filter((m) => m.type === 'assistant' || m.type === 'user');
    return frames.flatMap((m) => m.message.content).filter((block) => block?.type === type);
  }

  get toolResults() {
    return this.blocks('tool_result');
  }

  /** The user frames that are plain text: markers, synthetic turns, replays. */
  get userTexts() {
    const texts = (content) => (typeof content === 'string' ? [content] : content.map((block) => block.text));
    return this.of('user').flatMap((m) => texts(m.message.content)).filter(Boolean);
  }

  /** Fails unless the run ended well. */
  good() {
    assert.equal(this.error, undefined, `${this.error?.stack}\n${this}`);
    assert.equal(this.result.subtype, 'success', `${this}`);
    assert.equal(this.result.is_error, false, `${this}`);
    return this;
  }

  toString() {
    const lines = this.messages.map((m) => JSON.stringify(m).slice(0, 600));
    return [...lines, `error: ${this.error}`, `stderr: ${this.stderr}`].join('\n');
  }
}

/** Prompts that a case pushes one by one; the SDK's input stays open until `end`. */
export class Prompts {
  #waiting = [];
  #wake = () => {};
  #ended = false;

  push(text, more = {}) {
    this.#waiting.push({
      type: 'user',
      message: { role: 'user', content: text },
      parent_tool_use_id: null,
      session_id: '',
      ...more,
    });
    this.#wake();
    return this;
  }

  end() {
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#waiting.length > 0) yield this.#waiting.shift();
      if (this.#ended) return;
      await new Promise((resolve) => (this.#wake = resolve));
    }
  }
}

/** Waits for something outside of node to become true: a file made by a tool, the end of a process. */
export async function until(what, isTrue, limitMs = 20_000) {
  const deadline = Date.now() + limitMs;
  while (!isTrue()) {
    assert.ok(Date.now() < deadline, `waited ${limitMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A promise and what settles it. */
export function promised() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/** A turn that calls tools: `calls(bash('ls'), …)`. */
export const calls = (...tools) => ({ tools });
export const bash = (command, more) => ({ name: 'Bash', input: { command, ...more } });
export const text = (said) => ({ text: said });
export const allow = async (_name, input) => ({ behavior: 'allow', updatedInput: input });

/** The text of a tool result, whatever its form. */
export function textOf(block) {
  return typeof block.content === 'string' ? block.content : block.content.map((part) => part.text).join('');
}

/** The system prompt of a request as one text. */
export function systemOf(request) {
  const system = request.body.system ?? '';
  return typeof system === 'string' ? system : system.map((part) => part.text).join('\n');
}

/** The user texts of the newest message of a request. */
export function lastMessageOf(request) {
  return JSON.stringify(request.body.messages.at(-1));
}
