import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { callable, onCluster } from '../support/cluster-facts.ts';
import { ClusterProcesses, counterServer, type NodeProcess, until } from '../support/cluster-processes.ts';
import { eventually } from '../support/nats-cluster.ts';
import type { Json } from '../support/raw-http.ts';
import { startTrunkline } from '../support/run-trunkline.ts';
import { WireClient } from '../support/wire-client.ts';

test('every node shows the calls of all nodes, also live, and answers for another node named in the request', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      const locked = { type: 'http', url: 'http://127.0.0.1:9/mcp', start: 'lazy' };
      const b = await nodes.node('b', { counter: counterServer(), locked });
      await callable(a, 'counter');
      const data = ['--data-dir', join(b.gateway.folder, 'data')];
      const following = startTrunkline(['calls', 'tool:count', '-f', '-n', '0', '--json', ...data], {
        cwd: b.gateway.folder,
      });
      const client = await WireClient.open(a.serverUrl('counter'));
      await until(async () => {
        await client.callText('count');
        return following.out !== '';
      }, 'a call at the other node to be followed');
      following.process.kill('SIGINT');
      assert.equal(await following.exited, 0, following.err);
      const seen = JSON.parse(following.out.split('\n')[0]!) as Json;
      assert.deepEqual(
        [seen.node, seen.servedBy, seen.server, seen.name, seen.tries],
        ['a', 'b', 'counter', 'count', 1],
      );

      for (const node of [a, b]) {
        const { calls } = await node.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:count');
        assert.ok(calls.length > 0 && calls.every((call) => call['node'] === 'a'), JSON.stringify(calls));
        assert.equal((await node.control<Json>(`/api/v1/calls/${seen.id}`)).id, seen.id);
      }
      await eventually(async () => {
        const { nodes } = await b.control<{ nodes: Json[] }>('/api/v1/rates');
        const counted = nodes.map(({ node, seconds }) => [node, seconds.some((second: Json) => second['calls'] > 0)]);
        assert.deepEqual(counted, [
          ['b', false],
          ['a', true],
        ]);
      });
      // The node that has the server knows its history; any node answers with it.
      const { history } = await a.control<{ history: Json[] }>('/api/v1/servers/counter');
      assert.ok(history.length > 0);
      const { instances } = await a.control<{ instances: Json[] }>('/api/v1/instances?server=counter');
      assert.deepEqual(
        instances.map(({ node, state }) => [node, state]),
        [['b', 'running']],
      );
      // Log entries come from the node of the server; `lines` limits the entries of all nodes together.
      const last = async (query: string) => (await a.control<{ entries: Json[] }>(`/api/v1/logs?${query}`)).entries;
      const entries = await last('server=counter');
      assert.ok(entries.length > 1 && entries.every(({ loggedBy }) => loggedBy === 'b'), JSON.stringify(entries));
      const all = await last('lines=1000');
      assert.deepEqual(new Set(all.map(({ loggedBy }) => loggedBy)), new Set(['a', 'b']));
      const times = all.map(({ time }) => time);
      assert.deepEqual(times, times.toSorted());
      assert.deepEqual(await last('lines=2'), (await last('lines=1000')).slice(-2));
      assert.deepEqual(await last('lines=0'), []);
      assert.ok((await last('node=a')).every(({ loggedBy }) => loggedBy === 'a'));
      const only = await a.control<{ calls: Json[] }>('/api/v1/calls?filter=tool:count&node=b');
      assert.deepEqual(only.calls, []);
      const gateway = await a.control<Json>('/api/v1/gateway?node=b');
      assert.equal(gateway.pid, b.gateway.process.pid);
      const token = { authorization: `Bearer ${a.gateway.token('control')}` };
      const unknown = await fetch(new URL('/api/v1/gateway?node=z', a.gateway.controlUrl), { headers: token });
      assert.deepEqual([unknown.status, ((await unknown.json()) as Json).error.code], [404, 'node_unknown']);

      const ask = async (method: string, path: string): Promise<[number, Json]> => {
        const body = method === 'POST' ? { body: '{"redirectUri":null}' } : {};
        const headers = { ...token, 'content-type': 'application/json' };
        const reply = await fetch(new URL(`/api/v1/${path}`, a.gateway.controlUrl), { method, headers, ...body });
        return [reply.status, await reply.json()];
      };
      assert.equal((await ask('GET', 'calls?filter=colour:red'))[0], 400);
      const [, signIn] = await ask('GET', 'servers/locked/login');
      assert.deepEqual([signIn.server, signIn.possible], ['locked', true]);
      const [, check] = await ask('POST', 'servers/locked/login/check');
      assert.deepEqual([check.ok, check.steps[0].step], [false, 'challenge']);
      assert.equal((await ask('POST', 'servers/counter/login/check'))[0], 409);
      const [status, { error }] = await ask('POST', 'servers/locked/login');
      assert.equal(status, 404);
      assert.match(error.message, /^node b has the server "locked"/);
      // A forwarded request never has the right to run programs.
      const definition = { name: 'x', command: 'true' };
      const exec = await fetch(new URL('/api/v1/servers?node=b', a.gateway.controlUrl), {
        method: 'POST',
        headers: { ...token, 'content-type': 'application/json', 'trunkline-exec': a.gateway.token('exec') },
        body: JSON.stringify(definition),
      });
      assert.equal(exec.status, 403, await exec.text());
      // The node that executes the operation logs it.
      await until(() => /"addServer".*"forwarded":true/.test(b.gateway.stderr), 'the forwarded operation in its log');
      for (const [method, path] of [
        ['GET', 'secrets'],
        ['POST', 'login'],
      ] as const) {
        const refused = await fetch(new URL(`/api/v1/${path}?node=b`, a.gateway.controlUrl), {
          method,
          headers: { ...token, 'content-type': 'application/json' },
          ...(method === 'GET' ? {} : { body: '{}' }),
        });
        assert.deepEqual([refused.status, ((await refused.json()) as Json).error.code], [400, 'node_not_allowed']);
      }
    },
  ));

interface SentLine {
  readonly id: string;
  readonly entry: Json;
}

/** Reads the stream of the log until `enough` returns true; a timeout aborts it. */
async function readLog(
  node: NodeProcess,
  query: string,
  lastEventId: string | null,
  enough: (lines: readonly SentLine[]) => boolean,
): Promise<readonly SentLine[]> {
  const lines: SentLine[] = [];
  const { body } = await fetch(new URL(`/api/v1/logs/stream?${query}`, node.gateway.controlUrl), {
    headers: {
      authorization: `Bearer ${node.gateway.token('control')}`,
      ...(lastEventId === null ? {} : { 'last-event-id': lastEventId }),
    },
    signal: AbortSignal.timeout(20_000),
  });
  let text = '';
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
    const events = (text + chunk).split('\n\n');
    text = events.pop()!;
    for (const event of events) {
      const [, id, json] = /^id: (.*)\ndata: (.*)$/m.exec(event) ?? [];
      if (json !== undefined) lines.push({ id: id!, entry: JSON.parse(json) });
    }
    if (enough(lines)) break;
  }
  return lines;
}

test('one stream follows the logs of all nodes: in order, no line twice, also of a node that joins later', () =>
  onCluster(
    () => ClusterProcesses.start(),
    async (nodes) => {
      const a = await nodes.node('a', {});
      await nodes.node('b', { counter: counterServer() });
      await callable(a, 'counter');
      const args = ['logs', '-f', '-n', '4', '--json', '--data-dir', join(a.gateway.folder, 'data')];
      const following = startTrunkline(args, { cwd: a.gateway.folder });
      const lines = (): Json[] =>
        following.out
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line));
      const heard = (node: string, text: string) =>
        until(
          () => lines().some((line) => line.loggedBy === node && JSON.stringify(line).includes(text)),
          `${text} of ${node}`,
        );
      await until(() => lines().length >= 4, 'the last lines');
      // A node logs what it does for another node.
      await a.control('/api/v1/servers/counter/restart?node=b', 'POST');
      await a.control('/api/v1/nodes/nobody/drain', 'POST').catch(() => {});
      await heard('b', 'process_ended');
      await heard('a', 'drainNode');
      const times = lines()
        .map(({ time }) => time)
        .slice(0, 4);
      assert.deepEqual(times, times.toSorted());

      const end = (await a.control<Json>('/api/v1/logs?lines=0')).cursor;
      const restart = () => a.control('/api/v1/servers/counter/restart?node=b', 'POST');
      const running = ({ entry }: SentLine): boolean => entry.after === 'running' || entry.state === 'running';
      await restart();
      const first = await readLog(a, `after=${end}`, null, (sent) => sent.some(running));
      assert.ok(
        first.every(({ entry }) => entry.loggedBy !== undefined),
        JSON.stringify(first),
      );
      const middle = first.findIndex(({ entry }) => entry.event === 'process_ended');
      const again = await readLog(a, 'lines=100', first[middle]!.id, (sent) => sent.some(running));
      // The last chunk may contain more lines.
      const ofB = (sent: readonly SentLine[]) =>
        sent.slice(0, sent.findIndex(running) + 1).flatMap(({ entry }) => (entry.loggedBy === 'b' ? [entry] : []));
      assert.deepEqual(ofB(again), ofB(first.slice(middle + 1)));
      const one = await readLog(a, 'node=b&lines=3', null, (sent) => sent.length >= 3);
      assert.deepEqual(
        one.map(({ entry }) => entry.loggedBy),
        ['b', 'b', 'b'],
      );

      await nodes.node('c', {});
      await heard('c', 'node_lease_held');
      following.process.kill('SIGINT');
      assert.equal(await following.exited, 0, following.err);
      const told = following.out.split('\n').filter((line) => line !== '' && !line.includes('"gap"'));
      assert.equal(new Set(told).size, told.length, following.out);
    },
  ));
