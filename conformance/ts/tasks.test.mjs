// Work beside the turn, as hosts see it: commands in the background and what they can do to them, lists of work, and
// tools that are described only when they are needed.
//
// One case takes the time that the protocol names: a command counts as a task after 3 seconds.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { describe } from 'node:test';

import { bash, both, calls, every, isAlive, lastMessageOf, newest, Prompts, text, textOf, until } from './harness.mjs';

/** A command that ends when the file `gate` is there. */
const waiting = 'echo $$ > pid; until [ -e gate ]; do sleep 0.02; done; echo over';
const inBackground = calls(bash(waiting, { run_in_background: true, description: 'Wait' }));
const allowedTools = ['Bash'];

const notice = (seen) => seen.of('system', 'task_notification')[0];

describe('commands in the background', { concurrency: 8 }, () => {
  every('the end of one starts a turn after the result', async (w) => {
    await w.model([inBackground, text('started'), text('noticed')]);
    const seen = await w.read(w.query('go', { allowedTools }), (message) => {
      if (message.type === 'result') w.file('gate', '');
    });
    assert.equal(seen.error, undefined, `${seen}`);
    assert.deepEqual(seen.results.map((result) => result.result), ['started', 'noticed'], `${seen}`);
    assert.match(textOf(seen.toolResults[0]), /^Command running in background with ID: \w+\. Output is being written to: /);
    const [started] = seen.of('system', 'task_started');
    assert.equal(notice(seen).task_id, started.task_id);
    assert.equal(notice(seen).status, 'completed');
    assert.equal(notice(seen).summary, 'Background command "Wait" completed (exit code 0)');
    assert.match(lastMessageOf(w.requests()[2]), /<task-notification>/);
  });

  newest('the turn that follows can ask the host', async (w) => {
    await w.model([inBackground, text('started'), calls(bash('touch made')), text('done')]);
    const asked = [];
    const canUseTool = async (_name, input) => {
      asked.push(input.command);
      return { behavior: 'allow', updatedInput: input };
    };
    const seen = await w.read(w.query('go', { canUseTool }), (message) => {
      if (message.type === 'result') w.file('gate', '');
    });
    assert.equal(seen.error, undefined, `${seen}`);
    assert.deepEqual(asked, [waiting, 'touch made'], `${seen}`);
    assert.ok(w.has('made'));
    assert.equal(seen.results.at(-1).result, 'done');
  });

  both('a host stops one with everything it started', async (w) => {
    await w.model([inBackground, text('started')]);
    const prompts = new Prompts().push('go');
    const query = w.query(prompts, { allowedTools });
    const seen = await w.read(query, async (message) => {
      if (message.type === 'result') {
        await until('the command', () => w.has('pid') && readFileSync(w.path('pid'), 'utf8').endsWith('\n'));
        await query.stopTask(w.taskId);
      } else if (message.subtype === 'task_started') {
        w.taskId = message.task_id;
      } else if (message.subtype === 'task_notification') {
        prompts.end();
      }
    });
    assert.equal(seen.error, undefined, `${seen}`);
    assert.equal(notice(seen).status, 'stopped');
    assert.equal(seen.results.length, 1, `no turn follows: ${seen}`);
    const pid = Number(readFileSync(w.path('pid'), 'utf8'));
    await until('the end of the command', () => !isAlive(pid));
  });

  newest('a host moves a command to the background', async (w) => {
    await w.model([calls(bash(waiting, { description: 'Wait' })), text('meanwhile'), text('noticed')]);
    const query = w.query('go', { allowedTools });
    const moved = [];
    const seen = await w.read(query, async (message) => {
      if (message.subtype === 'task_started' && !message.is_backgrounded) {
        moved.push(await query.backgroundTasks('toolu_999_9'), await query.backgroundTasks(message.tool_use_id));
      } else if (message.type === 'result') {
        w.file('gate', '');
      }
    });
    assert.equal(seen.error, undefined, `${seen}`);
    assert.deepEqual(moved, [false, true]);
    assert.deepEqual(seen.results.map((result) => result.result), ['meanwhile', 'noticed'], `${seen}`);
    const [user] = seen.of('user');
    assert.equal(user.tool_use_result.backgroundTaskId, notice(seen).task_id, `${seen}`);
    assert.equal(notice(seen).status, 'completed');
  });
});

describe('lists of work', { concurrency: 8 }, () => {
  const call = (name, input) => calls({ name, input });
  const todo = (content, status) => ({ content, status, activeForm: `${content}ing` });

  every('to-dos are written as a whole', async (w) => {
    const [first, second] = [[todo('test', 'in_progress')], [todo('test', 'completed'), todo('ship', 'pending')]];
    const script = [call('TodoWrite', { todos: first }), call('TodoWrite', { todos: second }), text('done')];
    const env = { CLAUDE_CODE_ENABLE_TODO_TOOLS: '1', CLAUDE_CODE_ENABLE_TASKS: '0' };
    const seen = (await w.run(script, 'go', { env })).good();
    assert.ok(seen.init.tools.includes('TodoWrite'));
    const results = seen.of('user').map((message) => message.tool_use_result);
    assert.deepEqual(results[0], { oldTodos: [], newTodos: first }, `${seen}`);
    assert.deepEqual(results[1], { oldTodos: first, newTodos: second }, `${seen}`);
  });

  every('tasks are created, changed and listed', async (w) => {
    const script = [
      call('TaskCreate', { subject: 'Write', description: 'the text' }),
      call('TaskCreate', { subject: 'Print', description: 'the text' }),
      call('TaskUpdate', { taskId: '2', addBlockedBy: ['1'] }),
      call('TaskList', {}),
      call('TaskUpdate', { taskId: '1', status: 'completed' }),
      call('TaskList', {}),
      call('TaskGet', { taskId: '9' }),
      text('done'),
    ];
    const env = { CLAUDE_CODE_ENABLE_TODO_TOOLS: '1', CLAUDE_CODE_ENABLE_TASKS: '1' };
    const seen = (await w.run(script, 'go', { env })).good();
    const told = seen.toolResults.map(textOf);
    assert.equal(told[0], 'Task #1 created successfully: Write');
    assert.equal(told[1], 'Task #2 created successfully: Print');
    assert.match(told[2], /^Updated task #2/);
    assert.equal(told[3], '#1 [pending] Write\n#2 [pending] Print [blocked by #1]');
    assert.match(told[4], /^Updated task #1/);
    assert.equal(told[5], '#1 [completed] Write\n#2 [pending] Print');
    assert.match(told[6], /Task not found/);
  });
});

describe('worktrees', { concurrency: 8 }, () => {
  newest('one is entered, worked in and left', async (w) => {
    execFileSync('git', ['init', '-q', '-b', 'main', w.cwd]);
    const git = ['-C', w.cwd, '-c', 'user.name=n', '-c', 'user.email=e'];
    execFileSync('git', [...git, 'commit', '-q', '--allow-empty', '-m', 'first']);
    const script = [
      calls({ name: 'EnterWorktree', input: { name: 'side' } }),
      calls(bash('pwd; touch made')),
      calls({ name: 'ExitWorktree', input: { action: 'keep' } }),
      calls(bash('pwd')),
      text('done'),
    ];
    const allowedTools = ['Bash', 'EnterWorktree', 'ExitWorktree'];
    const seen = (await w.run(script, 'go', { allowedTools })).good();
    const told = seen.toolResults.map(textOf);
    const inside = realpathSync(w.path('.claude/worktrees/side'));
    assert.equal(told[1], inside, `${seen}`);
    assert.ok(w.has('.claude/worktrees/side/made') && !w.has('made'));
    assert.equal(told[3], realpathSync(w.cwd), `${seen}`);
  });
});

describe('tools that are described when they are needed', { concurrency: 8 }, () => {
  const search = calls({ name: 'ToolSearch', input: { query: 'select:NotebookEdit', max_results: 5 } });
  const offered = (request) => request.body.tools.map((tool) => `${tool.defer_loading ? '*' : ''}${tool.name}`);

  every('a search loads them, for hosts that know it', async (w) => {
    const seen = (await w.run([search, text('done')], 'go')).good();
    assert.ok(seen.init.tools.includes('ToolSearch') && seen.init.tools.includes('NotebookEdit'));
    const [before, after] = w.requests().map(offered);
    const [user] = seen.of('user');
    if (w.isSeed) {
      // Everything was described in their time.
      assert.ok(before.includes('NotebookEdit') && !before.includes('ToolSearch'), `${before}`);
      assert.deepEqual(after, before);
      assert.match(textOf(seen.toolResults[0]), /can be called as they are: NotebookEdit/);
      return;
    }
    assert.ok(before.includes('ToolSearch') && !before.includes('NotebookEdit'), `${before}`);
    assert.deepEqual(after, [...before, '*NotebookEdit']);
    assert.deepEqual(seen.toolResults[0].content, [{ type: 'tool_reference', tool_name: 'NotebookEdit' }]);
    assert.deepEqual(user.tool_use_result.matches, ['NotebookEdit']);
  });

  newest('nothing is left out for hosts that do not want it', async (w) => {
    (await w.run([text('done')], 'go', { env: { ENABLE_TOOL_SEARCH: 'false' } })).good();
    const [names] = w.requests().map(offered);
    assert.ok(names.includes('NotebookEdit') && !names.some((name) => name.startsWith('*')), `${names}`);
  });
});
