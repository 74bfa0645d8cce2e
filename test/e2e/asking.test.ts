import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { type RunningFixture, startConformanceServer } from '../fixtures/conformance/http.ts';
import { eventText, openEvents } from '../fixtures/http/stage.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { stateless } from '../support/downstream-rig.ts';
import { send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const STDIO_FIXTURE = resolve(import.meta.dirname, '../fixtures/conformance/stdio.ts');
const SAMPLE = { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' } as const;
const ROOTS = { roots: [{ uri: 'file:///here' }] };
const NAMED = { action: 'accept', content: { name: 'Ann', color: 'blue', ok: true, response: 'yes' } } as const;

async function started(era: 'stateful' | 'stateless'): Promise<{ fixture: RunningFixture; gateway: RunningGateway }> {
  const fixture = await startConformanceServer(era);
  const gateway = await RunningGateway.start({
    config: {
      mcpServers: {
        http: { type: 'http', url: fixture.url },
        stdio: { command: process.execPath, args: [STDIO_FIXTURE, era] },
      },
    },
  });
  await gateway.ready();
  return { fixture, gateway };
}

const textOf = (result: unknown): string => (result as { content: { text: string }[] }).content[0]!.text;

describe('check:B8 check:B13 check:C5 SDK 1.32 in front of a stateless server that needs input', {
  concurrency: true,
}, () => {
  let gateway: RunningGateway;
  let fixture: RunningFixture;
  before(async () => {
    ({ gateway, fixture } = await started('stateless'));
  });
  after(async () => {
    await gateway.dispose();
    await fixture.close();
  });

  for (const server of ['http', 'stdio']) {
    test(`several input requests, several rounds and a sealed state of the server, over ${server}`, async () => {
      for (const [url, prefix] of [
        [gateway.serverUrl(server), ''],
        [gateway.mcpUrl, `${server}__`],
      ] as const) {
        const client = new ClientV1(
          { name: 'v1', version: '1' },
          { capabilities: { sampling: {}, elicitation: {}, roots: {} } },
        );
        const asked: string[] = [];
        client.setRequestHandler(ElicitRequestSchema, () => {
          asked.push('elicitation');
          return NAMED as never;
        });
        client.setRequestHandler(CreateMessageRequestSchema, () => {
          asked.push('sampling');
          return SAMPLE as never;
        });
        client.setRequestHandler(ListRootsRequestSchema, () => {
          asked.push('roots');
          return ROOTS;
        });
        await client.connect(new HttpV1(new URL(url)) as never);
        const call = async (suffix: string) =>
          textOf(await client.callTool({ name: `${prefix}test_input_required_result_${suffix}`, arguments: {} }));
        assert.equal(await call('multiple_inputs'), 'Paris Ann, 1 root(s) visible');
        assert.deepEqual(asked.sort(), ['elicitation', 'roots', 'sampling']);
        assert.equal(await call('multi_round'), 'Ann likes blue');
        assert.equal(await call('request_state'), 'state-ok: verified and confirmed');
        await client.close();
      }
    });
  }

  test('check:D4 proto:S4 a client that declared nothing gets an error that names what is missing', async () => {
    const client = new ClientV1({ name: 'v1', version: '1' });
    await client.connect(new HttpV1(new URL(gateway.serverUrl('http'))) as never);
    await assert.rejects(client.callTool({ name: 'test_missing_capability', arguments: {} }), /-32021.*sampling/);
    await client.close();
  });
});

describe('check:B8 check:B13 SDK 2.4 in front of a stateful server with input requests', { concurrency: true }, () => {
  let gateway: RunningGateway;
  let fixture: RunningFixture;
  before(async () => {
    ({ gateway, fixture } = await started('stateful'));
  });
  after(async () => {
    await gateway.dispose();
    await fixture.close();
  });

  for (const server of ['http', 'stdio']) {
    test(`sampling and elicitation over ${server}, on the endpoint of one server and of all`, async () => {
      for (const [url, prefix] of [
        [gateway.serverUrl(server), ''],
        [gateway.mcpUrl, `${server}__`],
      ] as const) {
        const client = new Client(
          { name: 'v2', version: '1' },
          { capabilities: { sampling: {}, elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
        );
        client.setRequestHandler('elicitation/create', () => NAMED as never);
        client.setRequestHandler('sampling/createMessage', () => SAMPLE as never);
        await client.connect(new StreamableHTTPClientTransport(new URL(url)));
        assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
        const call = async (name: string, args: Record<string, unknown>) =>
          textOf(await client.callTool({ name: prefix + name, arguments: args }));
        assert.match(await call('test_sampling', { prompt: 'Where?' }), /LLM response: .*Paris/);
        assert.match(await call('test_elicitation', { message: 'Well?' }), /action=accept, content=.*"response":"yes"/);
        await client.close();
      }
    });
  }
});

describe('check:C5 fault:F33 the gateway’s process ends while a call waits for input', () => {
  for (const how of ['stopped', 'killed'] as const) {
    test(`proto:S3 ${how}: the client that returns gets UNKNOWN, and nothing runs again`, async () => {
      let calls = 0;
      const server = await StatefulServer.start({
        intercept: (message, { res }) => {
          if (message.method !== 'tools/call') return false;
          calls++;
          openEvents(res);
          const question = { jsonrpc: '2.0', id: 'q', method: 'elicitation/create', params: { message: 'Well?' } };
          res.write(eventText({ data: JSON.stringify(question) }));
          return true;
        },
      });
      const config = { mcpServers: { one: { type: 'http', url: server.url } } };
      // The gateway writes the state that it keeps over restarts when this first one stops.
      let gateway = await RunningGateway.start({ config });
      const again = async () => {
        gateway = await RunningGateway.start({ config, folder: gateway.folder });
        await gateway.ready();
      };
      const post = async (params: object): Promise<Answered> => {
        const call = { name: 'echo', arguments: {}, ...params };
        const { body, headers } = stateless('tools/call', call, { capabilities: { elicitation: {} } });
        const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
        return (await send(gateway.serverUrl('one'), 'POST', { ...types, ...headers }, body)).json as Answered;
      };
      try {
        await gateway.stop();
        await again();
        const { result } = await post({});
        assert.equal(result.resultType, 'input_required');
        await gateway.stop(how === 'killed' ? 'SIGKILL' : 'SIGTERM');
        await again();
        const { error } = await post({ inputResponses: { ask1: NAMED }, requestState: result.requestState });
        assert.equal(error.code, 53002);
        assert.equal(error.data.outcome, 'UNKNOWN');
        assert.equal(calls, 1);
      } finally {
        await gateway.dispose();
        await server.stop();
      }
    });
  }
});

interface Answered {
  readonly result: { readonly resultType: string; readonly requestState: string };
  readonly error: { readonly code: number; readonly data: { readonly outcome: string } };
}
