import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { AskingRig, askedIn, DECLARED, FORM, form, PAGE, question, retry } from '../../../test/support/asking-rig.ts';
import { stateless } from '../../../test/support/downstream-rig.ts';
import { ok } from '../../../test/support/fake-core.ts';
import { LinePipes } from '../../../test/support/line-pipes.ts';
import type { Exchange } from '../../model/exchange.ts';
import type { Message } from '../../model/message.ts';
import { answer } from '../../model/outcome.ts';
import { errorAnswer, notification, result } from '../../protocol/compose.ts';

const LOGS = { 'io.modelcontextprotocol/logLevel': 'info' };

let asking: AskingRig;
before(async () => {
  asking = await AskingRig.start();
});
after(() => asking.rig.close());

describe('proto:S3 check:B8 check:B13 input requests of a stateful server to a stateless client', () => {
  test('the call waits with its input request, and continues with the answer in the retry', async () => {
    asking.serves(() => [form()]);
    const first = await asking.post({ id: 'a' });
    assert.equal(first.status, 200);
    assert.equal(first.headers['content-type'], 'application/json');
    const asked = askedIn(first);
    assert.equal(asked.resultType, 'input_required');
    assert.ok(first.text.includes(`{"method":"elicitation/create","params":${FORM}}`), 'passed byte for byte');
    assert.equal(asking.rig.downstream.waitingForInput, 1);
    assert.deepEqual(asking.cancels, [], 'the end of the answered request is no cancel');
    const second = await asking.post({ id: 'b', params: retry(asked, { unknown: 1 }) });
    assert.equal(second.json.error?.code, -32602, 'other params are another request');
    const third = await asking.post({
      id: 'c',
      params: {
        inputResponses: { ask1: { action: 'accept', content: { n: 1 } }, stranger: {} },
        requestState: asked.requestState,
      },
    });
    assert.equal(third.text, '{"jsonrpc":"2.0","id":"c","result":{"resultType":"complete","content":[],"n":1.0}}');
    assert.equal((asking.answers[0] as Message).body.toString(), '{"action":"accept","content":{"n":1}}');
    assert.equal(asking.rig.downstream.waitingForInput, 0);
    assert.deepEqual(asking.cancels, []);
  });

  test('input requests within a moment are one round; unanswered ones are sent again, unknown keys are ignored', async () => {
    asking.serves(() => [
      form(),
      question('sampling/createMessage', '{"maxTokens":1}', '2'),
      question('roots/list', null, '3'),
    ]);
    const asked = askedIn(await asking.post());
    assert.deepEqual(
      Object.values(asked.inputRequests).map(({ method }) => method),
      ['elicitation/create', 'sampling/createMessage', 'roots/list'],
    );
    const [first] = Object.keys(asked.inputRequests);
    const half = { inputResponses: { [first!]: {}, no: 5 }, requestState: asked.requestState };
    const again = askedIn(await asking.post({ params: half }));
    assert.deepEqual(Object.keys(again.inputRequests), Object.keys(asked.inputRequests).slice(1));
    assert.notEqual(again.requestState, asked.requestState);
    const none = askedIn(await asking.post({ params: { requestState: again.requestState } }));
    assert.deepEqual(Object.keys(none.inputRequests), Object.keys(again.inputRequests));
    const done = await asking.post({ params: retry(none) });
    assert.equal(done.json.result.resultType, 'complete');
    assert.equal(asking.answers.length, 3);
  });

  test('a second input request of the same call is a second round', async () => {
    asking.serves(
      () => [form()],
      () => [question('elicitation/create', PAGE)],
    );
    const first = askedIn(await asking.post());
    const second = askedIn(await asking.post({ params: retry(first) }));
    assert.deepEqual(Object.values(second.inputRequests), [
      { method: 'elicitation/create', params: { mode: 'url', url: 'https://x.example/', message: 'go' } },
    ]);
    assert.notDeepEqual(Object.keys(second.inputRequests), Object.keys(first.inputRequests));
    assert.equal((await asking.post({ params: retry(second) })).json.result.resultType, 'complete');
  });

  test('proto:S4 the server gets a refusal for what the client did not declare, modes included', async () => {
    const cases: [object, Message][] = [
      [{}, form()],
      [{ elicitation: {} }, question('elicitation/create', PAGE)],
      [{ elicitation: { url: {} } }, form()],
      [{ sampling: {} }, question('sampling/createMessage', '{"tools":[]}')],
      [DECLARED, question('tasks/get', '{}')],
    ];
    for (const [capabilities, one] of cases) {
      asking.serves(() => [one]);
      const reply = await asking.post({ capabilities });
      assert.equal(reply.json.result.resultType, 'complete', one.method);
      assert.ok(asking.answers[0] instanceof Error, one.method);
    }
    asking.rig.core.on('resources/list', async (exchange) => {
      await assert.rejects(exchange.ask(form()), /nothing can be asked/);
      return ok(exchange, '{}');
    });
    const { body, headers } = stateless('resources/list', {}, { capabilities: DECLARED });
    assert.equal((await asking.rig.post(body, headers)).status, 200);
  });

  test('the order of members and the tokens of `_meta` do not make another request', async () => {
    asking.serves(() => [form()]);
    const asked = askedIn(await asking.post({ params: { arguments: { a: 1, b: [1.5] }, z: 1 } }));
    const params = { z: 1, arguments: { b: [1.5], a: 1 }, ...retry(asked) };
    assert.equal((await asking.post({ params, meta: { progressToken: 'new' } })).json.result.resultType, 'complete');
  });

  test('progress has the token of the attached request, and only progress can be lost', async () => {
    const progress = (n: number) =>
      notification('notifications/progress', `{"progressToken":"old","progress":${n}}`, 'stateful');
    const log = (text: string) =>
      notification('notifications/message', `{"level":"info","data":"${text}"}`, 'stateful');
    let call: Exchange | null = null;
    asking.rig.core.on('tools/call', async (exchange) => {
      call = exchange;
      await exchange.ask(form());
      exchange.emit(progress(2));
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await asking.post({ meta: { progressToken: 'old', ...LOGS } }));
    call!.emit(progress(1));
    call!.emit(log('meanwhile'));
    const reply = await asking.post({ params: retry(asked), meta: { progressToken: 7, ...LOGS } });
    const events = reply.text.split('\n').filter((line) => line.startsWith('data: '));
    const messages = events.map((line) => JSON.parse(line.slice(6)));
    assert.deepEqual(messages[0].params, { level: 'info', data: 'meanwhile' });
    assert.deepEqual(messages[1].params, { progressToken: 7, progress: 2 });
    assert.equal(messages[2].result.resultType, 'complete');
    assert.equal(messages.length, 3);
  });

  test('an open stream ends with the input request', async () => {
    asking.rig.core.on('tools/call', async (exchange) => {
      exchange.emit(notification('notifications/message', '{"level":"info","data":"first"}', 'stateful'));
      await exchange.ask(form());
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const reply = await asking.post({ id: 'x', meta: LOGS });
    assert.match(reply.headers['content-type'] as string, /event-stream/);
    const last = JSON.parse(reply.text.trim().split('\n').at(-1)!.slice(6));
    assert.equal(last.id, 'x');
    assert.equal(last.result.resultType, 'input_required');
    assert.equal((await asking.post({ params: retry(last.result) })).json.result.resultType, 'complete');
  });

  test('a cancelled input request is not sent any more', async () => {
    asking.rig.core.on('tools/call', async (exchange) => {
      const off = exchange.ask(question('roots/list', null, '"off"'));
      const on = exchange.ask(form());
      exchange.emit(notification('notifications/cancelled', '{"requestId":"off"}', 'stateful'));
      await assert.rejects(off, /cancelled its request/);
      await on;
      return answer(result('0', '{"content":[]}', 'stateful'));
    });
    const asked = askedIn(await asking.post());
    assert.deepEqual(
      Object.values(asked.inputRequests).map(({ method }) => method),
      ['elicitation/create'],
    );
    assert.equal((await asking.post({ params: retry(asked) })).json.result.resultType, 'complete');
  });

  test('when a server refuses a call until its user opened pages, the client gets them, and its retry calls again', async () => {
    const pages = `{"elicitations":[${PAGE}]}`;
    let turn = 0;
    asking.rig.core.on('tools/call', (exchange) =>
      turn++ % 2 === 0
        ? answer(errorAnswer('0', -32042, 'needs you', pages, 'stateful'))
        : answer(result('0', `{"content":[],"had":${exchange.request.bytes.includes('requestState')}}`, 'stateful')),
    );
    const reply = await asking.post();
    const asked = askedIn(reply);
    assert.deepEqual(asked.inputRequests, {
      ask1: { method: 'elicitation/create', params: { mode: 'url', url: 'https://x.example/', message: 'go' } },
    });
    const ran = asking.rig.core.ran.length;
    const tampered = { ...retry(asked), arguments: { a: 1 } };
    assert.equal((await asking.post({ params: tampered })).json.error.code, -32602);
    const declined = { inputResponses: { ask1: { action: 'decline' } }, requestState: asked.requestState };
    assert.equal((await asking.post({ params: declined })).json.error.data.outcome, 'REFUSED');
    assert.equal(asking.rig.core.ran.length, ran, 'nothing ran');
    const done = await asking.post({ params: retry(asked) });
    assert.deepEqual(done.json.result, { resultType: 'complete', content: [], had: false });
    assert.equal((await asking.post({ params: retry(asked) })).json.error.code, -32602, 'a state is valid once');
    const formsOnly = await asking.post({ capabilities: { elicitation: {} } });
    assert.equal(formsOnly.status, 400);
    assert.equal(formsOnly.json.error.code, -32021);
    assert.deepEqual(formsOnly.json.error.data, { requiredCapabilities: { elicitation: { url: {} } } });
  });

  test('check:B10 input requests work the same on pipes, whose end cancels the waiting calls', async () => {
    asking.serves(() => [form()]);
    const pipes = new LinePipes();
    const attached = asking.rig.downstream.stdio(pipes);
    const send = (id: string, params: object) =>
      pipes.send(stateless('tools/call', { name: 't', ...params }, { id, capabilities: DECLARED }).body);
    const message = async () => {
      let come = false;
      const line = pipes.message().finally(() => {
        come = true;
      });
      while (!come) await asking.clock.advance(1);
      return line;
    };
    send('a', {});
    const first = await message();
    assert.equal(first.id, 'a');
    assert.equal(first.result.resultType, 'input_required');
    assert.equal(
      (await asking.post({ path: '/mcp', params: { requestState: `${first.result.requestState}x` } })).json.error.code,
      -32602,
    );
    send('b', retry(first.result));
    assert.deepEqual(await message(), {
      jsonrpc: '2.0',
      id: 'b',
      result: { resultType: 'complete', content: [], n: 1 },
    });
    send('c', retry(first.result));
    assert.equal((await message()).error.code, -32602);
    send('d', {});
    assert.equal((await message()).result.resultType, 'input_required');
    assert.equal(asking.rig.downstream.waitingForInput, 1);
    assert.deepEqual(asking.cancels, []);
    pipes.ends.write.end();
    await attached.closed;
    assert.equal(asking.rig.downstream.waitingForInput, 0);
    assert.deepEqual(asking.cancels, ['the client is gone']);
  });
});
