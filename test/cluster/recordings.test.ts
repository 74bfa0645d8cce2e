import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, type NodeProcess, until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';

interface View {
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
  readonly node: string | null;
  readonly nodes: readonly string[];
  readonly servers: readonly string[];
  readonly sessions: readonly string[];
  readonly entries: number;
}

const post = <T>({ gateway }: NodeProcess, path: string, body: object = {}): Promise<T> =>
  gateway.control<T>(path, 'POST', JSON.stringify(body));

async function textOf(node: NodeProcess, id: string, query = ''): Promise<Json[]> {
  const { jsonl } = await node.control<{ jsonl: string }>(`/api/v1/recordings/${id}${query}`);
  return jsonl
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

async function connected(url: string, mode: 'legacy' | 'auto', name: string): Promise<Client> {
  const client = new Client(
    { name, version: '1' },
    { versionNegotiation: { mode }, capabilities: { elicitation: {} } },
  );
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { colour: 'green' } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

test('both wires of calls that cross nodes are in the recording, and it replays', { timeout: 170_000 }, () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      const b = await nodes.node('b', {
        many: manySided('many'),
        'many-changed': manySided('many', { CHANGED: '1' }, { drift: 'off' }),
      });
      await callable(a, 'many', 'many-changed');
      for (const mode of ['legacy', 'auto'] as const) {
        const name = `crossing-${mode}`;
        const { id, ...begun } = await post<View>(a, '/api/v1/recordings', { client: name });
        assert.deepEqual([begun.state, begun.node], ['waiting', null]);
        const client = await connected(a.mcpUrl, mode, name);
        const second = await connected(a.mcpUrl, mode, `${name}-other`);
        await client.listTools();
        await client.callTool({ name: 'many__echo', arguments: { text: 'hello' } });
        await client.callTool({ name: 'many__ask', arguments: { message: 'Which colour?' } });
        await second.callTool({ name: 'many__echo', arguments: { text: 'not recorded' } });
        // Every node lists the whole recording and can stop all of it.
        const listed = await b.control<{ recordings: View[] }>('/api/v1/recordings');
        assert.deepEqual(
          listed.recordings.map(({ nodes: at, servers, state }) => [[...at].sort(), servers, state]),
          [[['a', 'b'], ['many'], 'recording']],
        );
        const stopped = await post<View>(b, `/api/v1/recordings/${id}/stop`);
        assert.deepEqual([stopped.state, stopped.reason, stopped.sessions.length], ['stopped', 'it was stopped', 1]);
        await client.close();
        await second.close();

        const [head, ...lines] = await textOf(b, id);
        assert.equal(head!['recording'], 1);
        const entries = lines.filter(({ seq }) => seq !== undefined);
        assert.deepEqual(
          entries.map(({ seq }) => seq),
          entries.map((_, at) => at + 1),
        );
        assert.equal(stopped.entries, entries.length);
        assert.deepEqual(
          entries.map(({ time }) => time).sort(),
          entries.map(({ time }) => time),
        );
        assert.ok(!JSON.stringify(lines).includes('not recorded'));
        assert.equal(lines.filter(({ capabilities }) => capabilities !== undefined).length, 1);
        const calls = entries.filter(({ message }) => message.params?.arguments?.text === 'hello');
        assert.deepEqual(
          calls.map(({ node, wire, from, session }) => [node, wire, from, session === stopped.sessions[0]]),
          [
            ['a', 'client', 'client', true],
            ['b', 'server', 'gateway', true],
          ],
        );
        assert.equal(calls[0]!['exchange'], calls[1]!['exchange']);
        const answers = entries.filter(
          ({ exchange, message }) => exchange === calls[0]!['exchange'] && message.result !== undefined,
        );
        assert.deepEqual(answers.map(({ node, wire, from }) => `${node} ${wire} ${from}`).sort(), [
          'a client gateway',
          'b server server',
        ]);
        const asked = entries.filter(({ message }) => JSON.stringify(message).includes('"Which colour?"'));
        assert.deepEqual([...new Set(asked.map(({ wire }) => wire))].sort(), ['client', 'server']);

        for (const node of [a, b]) {
          const same = await post<Json>(node, '/api/v1/replays', { recording: id, server: 'many' });
          assert.deepEqual(same['differences'], []);
          assert.ok(same['replayed'] >= 3, JSON.stringify(same));
        }
        const changed = await post<Json>(a, '/api/v1/replays', { recording: id, server: 'many-changed' });
        assert.deepEqual(
          changed['differences'].map(({ path }: Json) => path),
          ['$.result.tools["echo"].description', '$.result.content[0].text'],
        );
        await a.gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
        for (const node of [a, b]) {
          assert.deepEqual((await node.control<{ recordings: View[] }>('/api/v1/recordings')).recordings, []);
          assert.deepEqual(readdirSync(join(node.gateway.folder, 'data/recordings')), []);
        }
      }

      // An open session that moves to the other node, and a server that runs at the other node.
      const client = await connected(a.mcpUrl, 'legacy', 'open');
      const { sessionId } = client.transport as StreamableHTTPClientTransport;
      let label = '';
      await until(async () => {
        const { sessions } = await b.control<{ sessions: Json[] }>('/api/v1/sessions');
        label = sessions.find(({ clientInfo }) => clientInfo?.name === 'open')?.label ?? '';
        return label !== '';
      }, 'the session to be known at the other node');
      const ofSession = await post<View>(b, '/api/v1/recordings', { session: label });
      const ofServer = await post<View>(a, '/api/v1/recordings', { server: 'many' });
      const alone = await post<View>(a, '/api/v1/recordings?node=a', { server: 'many' });
      await client.callTool({ name: 'many__echo', arguments: { text: 'at a' } });
      const headers = { 'mcp-session-id': sessionId!, 'mcp-protocol-version': '2025-11-25' };
      const moved = await fetch(b.mcpUrl, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: '{"jsonrpc":"2.0","id":"moved","method":"tools/call","params":{"name":"many__echo","arguments":{"text":"at b"}}}',
      });
      assert.match(await moved.text(), /at b/);
      await (client.transport as StreamableHTTPClientTransport).terminateSession();
      await client.close();
      const states = async (node: NodeProcess): Promise<string[]> => {
        const { recordings } = await node.control<{ recordings: View[] }>('/api/v1/recordings?node=b');
        return recordings.map(({ id, state, reason }) => `${id} ${state} ${reason}`);
      };
      await until(
        async () => (await states(a)).includes(`${ofSession.id} stopped the session ended`),
        'the recording of the session to stop at both nodes',
      );
      assert.ok((await states(a)).includes(`${ofServer.id} recording null`), String(await states(a)));
      const told = async (id: string, query = ''): Promise<string[]> => {
        const lines = await textOf(a, id, query);
        return lines.flatMap(({ node, wire, message }) => {
          const text = message?.params?.arguments?.text;
          return text === undefined ? [] : [`${text}: ${node} ${wire}`];
        });
      };
      const both = ['at a: a client', 'at a: b server', 'at b: b client', 'at b: b server'];
      assert.deepEqual((await told(ofSession.id)).sort(), both);
      assert.deepEqual(await told(ofServer.id), ['at a: b server', 'at b: b server']);
      assert.deepEqual(await told(ofSession.id, '?node=a'), ['at a: a client']);
      assert.deepEqual([alone.node, await told(alone.id)], ['a', []]);
    },
  ),
);
