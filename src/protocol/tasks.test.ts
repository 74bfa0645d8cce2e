import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Message } from '../model/message.ts';
import { relatedTask, withRelatedTask } from './body.ts';
import { errorAnswer, request, result } from './compose.ts';
import { initializeRequest } from './handshake-results.ts';
import { toStateless } from './stateless/to-stateless.ts';
import {
  declaresTasks,
  declaringTasks,
  describedTask,
  isTasksRequiredError,
  REQUIRES_TASKS,
  readTask,
  statefulTask,
  statelessTask,
  taskSupport,
  tasksToStateful,
  tasksToStateless,
  toolWithTasks,
  withoutTasks,
} from './tasks.ts';

const EXTENSION = 'io.modelcontextprotocol/tasks';
const RELATED = 'io.modelcontextprotocol/related-task';

function whole(bytes: Buffer) {
  return { start: 0, end: bytes.length };
}

describe('a task from one era to the other', () => {
  const MODERN =
    '{"resultType":"complete","taskId":"t","status":"completed","createdAt":"a","lastUpdatedAt":"b","ttlMs":60000.0,' +
    '"pollIntervalMs":5e3,"result":{"content":[]},"vendor":12345678901234567890,"_meta":{"x":1}}';
  const LEGACY =
    '{"taskId":"t","status":"completed","createdAt":"a","lastUpdatedAt":"b","ttl":60000.0,"pollInterval":5e3,"vendor":12345678901234567890}';

  test('check:B12 numbers and unknown members stay as written', () => {
    const bytes = Buffer.from(MODERN);
    const kept = describedTask(bytes, whole(bytes));
    assert.equal(
      kept.toString(),
      '{"ttl":60000.0,"pollInterval":5e3,"taskId":"t","status":"completed","createdAt":"a","lastUpdatedAt":"b","vendor":12345678901234567890}',
    );
    const legacy = Buffer.from(LEGACY);
    assert.equal(describedTask(legacy, whole(legacy)).toString(), LEGACY);
    assert.equal(
      statefulTask(legacy, 'é"', 'failed').toString(),
      LEGACY.replace('"t"', '"é\\""').replace('completed', 'failed'),
    );
    const modern = statelessTask(legacy, 'o', 'completed', [
      ['resultType', '"complete"'],
      ['result', '{"n":-0}'],
    ]);
    assert.equal(
      modern.toString(),
      '{"ttlMs":60000.0,"pollIntervalMs":5e3,"resultType":"complete","result":{"n":-0},"taskId":"o","status":"completed",' +
        '"createdAt":"a","lastUpdatedAt":"b","vendor":12345678901234567890}',
    );
  });

  test('the members that both eras require are present: a ttl, null if there is no end', () => {
    const bare = Buffer.from('{"taskId":"t","status":"working"}');
    assert.equal(statefulTask(bare, 't', 'working').toString(), '{"ttl":null,"taskId":"t","status":"working"}');
    assert.equal(JSON.parse(statelessTask(bare, 't', 'working', []).toString()).ttlMs, null);
  });

  test('a task is read in either era; other values are no task', () => {
    const read = (json: string) => readTask(Buffer.from(json), whole(Buffer.from(json)));
    assert.deepEqual(read(MODERN), { taskId: 't', status: 'completed', ttlMs: 60_000, pollIntervalMs: 5_000 });
    assert.deepEqual(read(LEGACY), { taskId: 't', status: 'completed', ttlMs: 60_000, pollIntervalMs: 5_000 });
    assert.deepEqual(read('{"taskId":"t","status":"working","ttl":null,"pollInterval":-1}'), {
      taskId: 't',
      status: 'working',
      ttlMs: null,
      pollIntervalMs: null,
    });
    for (const json of ['[]', '{"taskId":1,"status":"working"}', '{"taskId":"t"}', '{"taskId":"t","status":"lost"}']) {
      assert.equal(read(json), null);
    }
  });
});

describe('declared capabilities', () => {
  test('proto:S5 a server’s tasks are declared as in the other era, all else unchanged', () => {
    const legacy = '{"tools":{"x":1.0},"tasks":{"requests":{"tools":{"call":{}}}},"v":-0}';
    assert.equal(tasksToStateless(legacy), `{"extensions":{"${EXTENSION}":{}},"tools":{"x":1.0},"v":-0}`);
    const other = '{"tasks":{"requests":{"x":{}}},"extensions":{"v/x":{}}}';
    assert.equal(tasksToStateless(other), '{"extensions":{"v/x":{}}}');
    const modern = `{"tools":{},"extensions":{"${EXTENSION}":{},"v/x":{"n":1.0}}}`;
    assert.deepEqual(JSON.parse(tasksToStateful(modern)), {
      tools: {},
      extensions: { 'v/x': { n: 1 } },
      tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } },
    });
    assert.equal(tasksToStateful('{"tools":{}}'), '{"tools":{}}');
    assert.ok(declaresTasks({ era: 'stateful', capabilities: legacy }));
    assert.ok(!declaresTasks({ era: 'stateful', capabilities: other }));
    assert.ok(declaresTasks({ era: 'stateless', capabilities: modern }));
    assert.ok(!declaresTasks({ era: 'stateless', capabilities: `{"extensions":{"${EXTENSION}":true}}` }));
  });

  test('proto:S5 a server does not get a client’s own tasks', () => {
    const own = `{"roots":{},"tasks":{"list":{}},"extensions":{"${EXTENSION}":{},"v/x":{}}}`;
    assert.equal(withoutTasks(own), '{"roots":{},"extensions":{"v/x":{}}}');
    const asked = initializeRequest('1', { capabilities: own, info: null }, '2025-11-25');
    assert.ok(!asked.bytes.includes('"tasks"'));
    assert.ok(!asked.bytes.includes(EXTENSION));
  });

  test('a request that can be answered with a task declares tasks, and no other request does', () => {
    const plain = toStateless(request('tools/call', '1', '{"name":"t","task":{}}', 'stateful'), {
      capabilities: '{"roots":{},"tasks":{}}',
      info: null,
    });
    const declared = (message: Message) =>
      JSON.parse(message.body.toString())._meta['io.modelcontextprotocol/clientCapabilities'];
    assert.deepEqual(declared(plain), { roots: {} });
    assert.deepEqual(declared(declaringTasks(plain)), { roots: {}, extensions: { [EXTENSION]: {} } });
    assert.deepEqual(declared(declaringTasks(declaringTasks(plain))), { roots: {}, extensions: { [EXTENSION]: {} } });
  });

  test('the task support of a tool and the refusal of clients without tasks are recognized', () => {
    assert.equal(taskSupport(Buffer.from('{"name":"a"}')), 'forbidden');
    assert.equal(taskSupport(Buffer.from('{"name":"a","execution":{"taskSupport":"required"}}')), 'required');
    assert.equal(taskSupport(Buffer.from('{"taskSupport":"required"}')), 'forbidden');
    assert.equal(taskSupport(toolWithTasks(Buffer.from('{"name":"a","n":1.0}'))), 'optional');
    assert.ok(isTasksRequiredError(errorAnswer('1', -32021, 'no', REQUIRES_TASKS, 'stateless')));
    assert.ok(
      !isTasksRequiredError(errorAnswer('1', -32021, 'no', '{"requiredCapabilities":{"roots":{}}}', 'stateless')),
    );
    assert.ok(!isTasksRequiredError(errorAnswer('1', -32603, 'no', REQUIRES_TASKS, 'stateless')));
  });
});

test('a message can be related to a task, to another one, and to none; the rest of it stays', () => {
  const message = result('1', '{"content":[],"_meta":{"v":1.0}}', 'stateful');
  assert.equal(relatedTask(message), null);
  const related = withRelatedTask(message, 'a');
  assert.equal(related.body.toString(), `{"content":[],"_meta":{"${RELATED}":{"taskId":"a"},"v":1.0}}`);
  assert.equal(relatedTask(withRelatedTask(related, 'b')), 'b');
  assert.equal(withRelatedTask(related, null).body.toString(), message.body.toString());
  assert.equal(relatedTask(request('ping', '1', null, 'stateful')), null);
});
