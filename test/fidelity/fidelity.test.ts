import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { RunningGateway } from '../support/running-gateway.ts';
import { tokens } from './lexical.ts';
import { ODD, ODD_MEMBERS, spaced } from './odd-json.ts';
import { CAPABILITIES, RawClient } from './raw-client.ts';
import { RawServer } from './raw-server.ts';

const MAPPED = ['id', 'progressToken'];
const BIG_ID = '9007199254740993';

for (const era of ['stateful', 'stateless'] as const) {
  describe(`a gateway is as faithful as a byte proxy, ${era} on both sides`, { timeout: 60_000 }, () => {
    const server = new RawServer(era);
    let gateway: RunningGateway;
    let client: RawClient;
    const complete = era === 'stateless' ? '"resultType":"complete",' : '';
    const cached = era === 'stateless' ? `${complete}"ttlMs":1000,"cacheScope":"private",` : '';

    before(async () => {
      const url = await server.listen();
      gateway = await RunningGateway.start({ config: { mcpServers: { raw: { type: 'http', url } } } });
      await gateway.ready();
      client = new RawClient(gateway.serverUrl('raw'), era);
      await client.open();
    });
    after(async () => {
      await gateway.dispose();
      await server.close();
    });

    /** Sends a request with odd params, has it answered with an odd answer; both must arrive as they were sent. */
    async function roundTrip(method: string, routing: string, answerBody: string, id = BIG_ID): Promise<void> {
      const answer = `{"x-top":1.0,${answerBody},"jsonrpc":"2.0","id":$ID}`;
      server.scripts.set(method, { answer });
      const params = `{${routing}"x-odd":${ODD},"_meta":{${client.meta}"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","x-meta":${ODD}}}`;
      for (const write of [(text: string) => text, spaced]) {
        const sent = write(`{"x-envelope":-0,"jsonrpc":"2.0","method":"${method}","params":${params},"id":${id}}`);
        const { messages } = await client.send(sent);
        assert.deepEqual(tokens(server.last(method), MAPPED), tokens(sent, MAPPED), 'the request');
        assert.deepEqual(
          tokens(messages.at(-1)!, []),
          tokens(answer.replace('$ID', id), []),
          'the answer, id included',
        );
      }
    }

    const RESULTS: readonly (readonly [method: string, routing: string, body: string])[] = [
      [
        'tools/call',
        `"name":"t","arguments":${ODD},`,
        `"result":{${complete}"content":[{"type":"text","text":"é\\u00e9","annotations":${ODD}},{"type":"x-new",${ODD_MEMBERS}}],"structuredContent":${ODD}}`,
      ],
      [
        'resources/read',
        '"uri":"test://a b?c=%20",',
        `"result":{${cached}"contents":[{"uri":"test://a b?c=%20","blob":"AA==",${ODD_MEMBERS}}]}`,
      ],
      [
        'prompts/get',
        `"name":"p","arguments":{"a":"\\u0041"},`,
        `"result":{${complete}"messages":[{"role":"user","content":{"type":"text","text":"x",${ODD_MEMBERS}}}]}`,
      ],
      [
        'completion/complete',
        '"ref":{"type":"ref/prompt","name":"p","x":1.0},"argument":{"name":"a","value":"v"},',
        `"result":{${complete}"completion":{"values":[],"total":12345678901234567890}}`,
      ],
    ];
    for (const [method, routing, body] of RESULTS) {
      test(`S2.12 S2.14 check:B12 ${method}: request and result keep every lexeme`, () =>
        roundTrip(method, routing, body));
    }

    test('S2.15 ids return exactly: strings, escapes and integers of any size', async () => {
      for (const id of ['"a\\u0041\\"é"', '-7', '123456789012345678901234567890', '""', '0']) {
        await roundTrip('tools/call', '"name":"t","arguments":{},', `"result":{${complete}"content":[]}`, id);
      }
    });

    test("a server's own error keeps code, message and data", () =>
      roundTrip(
        'tools/call',
        '"name":"t","arguments":{},',
        `"error":{"code":-12345,"message":"é\\n","data":${ODD},"x-error":1.0}`,
      ));

    test('a tool that reports an error keeps its content', () =>
      roundTrip('tools/call', '"name":"t",', `"result":{${complete}"isError":true,"content":[],"x":${ODD}}`));

    test('S2.17 a list keeps unknown fields of its items, and its cursor', () =>
      roundTrip(
        'tools/list',
        '"cursor":"c\\u0041",',
        `"result":{${cached}"tools":[{"name":"t","inputSchema":{"type":"object","minimum":1.0},"x-tool":${ODD}}],"nextCursor":"\\u0042","x-list":${ODD}}`,
      ));

    test('progress and log messages keep unknown fields; the progress token returns as it was given', async () => {
      const level = era === 'stateless' ? '"io.modelcontextprotocol/logLevel":"debug",' : '';
      const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":${ODD},"progressToken":$TOKEN,"progress":1.50}}`;
      const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${ODD},"_meta":{"x":1.0}}}`;
      server.scripts.set('tools/call', {
        before: [progress, log],
        answer: `{"jsonrpc":"2.0","id":$ID,"result":{${complete}"content":[]}}`,
      });
      for (const token of ['"tok\\u0041"', '12345678901234567890']) {
        const { messages } = await client.send(
          `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t","_meta":{${client.meta}${level}"progressToken":${token}}}}`,
        );
        assert.deepEqual(tokens(messages[0]!, []), tokens(progress.replace('$TOKEN', token), []));
        assert.deepEqual(tokens(messages[1]!, []), tokens(log, []));
        assert.equal(messages.length, 3);
      }
    });

    test('proto:S5 the client’s declaration reaches the server exactly', () => {
      const method = era === 'stateful' ? 'initialize' : 'tools/call';
      const key = era === 'stateful' ? 'capabilities' : 'io.modelcontextprotocol/clientCapabilities';
      const seen = server.received.filter((text) => text.includes(`"${method}"`));
      assert.ok(
        seen.some((text) => text.includes(`"${key}":${CAPABILITIES}`)),
        seen.join('\n').slice(0, 2000),
      );
    });

    test('S2.13 the server’s description reaches the client with its unknown fields', () => {
      const answer = client.handshake!.answer.messages[0]!;
      assert.ok(answer.includes('"x-hello":{"n":1.0,"z":12345678901234567890}'), answer);
      assert.ok(answer.includes('"x-cap":1.0'), answer);
    });

    if (era === 'stateful') {
      for (const [method, params] of [
        ['sampling/createMessage', '"messages":[],"maxTokens":1.0'],
        ['elicitation/create', '"message":"é","requestedSchema":{"type":"object","properties":{}}'],
        ['roots/list', '"x-roots":1.0'],
      ] as const) {
        test(`check:B13 ${method}: the input request and the answer keep every lexeme`, async () => {
          const question = `{"jsonrpc":"2.0","id":"srv-${BIG_ID}","method":"${method}","params":{${params},"x":${ODD}}}`;
          server.scripts.set('tools/call', {
            before: [question],
            waitsForAnswer: true,
            answer: '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}',
          });
          let reply = '';
          const { messages } = await client.send(
            '{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"t"}}',
            (request) => {
              const id = /"id"\s*:\s*("[^"]*"|[\d]+)/.exec(request)![1]!;
              reply = `{"jsonrpc":"2.0","id":${id},"result":{"roots":[],"action":"accept","role":"assistant","x":${ODD}}}`;
              return reply;
            },
          );
          assert.deepEqual(tokens(messages[0]!), tokens(question));
          assert.deepEqual(tokens(server.answers.at(-1)!), tokens(reply));
          assert.ok(server.answers.at(-1)!.includes(`"id":"srv-${BIG_ID}"`), "the server's own id comes back exactly");
        });
      }
    } else {
      test('input_required and its retry keep every lexeme, the request state to the byte', async () => {
        const state = '"requestState":"\\u0041b+/=é\\n"';
        await roundTrip(
          'tools/call',
          '"name":"t","arguments":{},',
          `"result":{"resultType":"input_required","inputRequests":{"q\\u0041":{"method":"elicitation/create","params":${ODD}}},${state}}`,
        );
        await roundTrip(
          'tools/call',
          `"name":"t","inputResponses":{"q\\u0041":{"action":"accept","content":${ODD}}},${state},`,
          `"result":{${complete}"content":[]}`,
        );
      });
    }
  });
}
