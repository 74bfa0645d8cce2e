import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RotatingIssuer } from '../fixtures/oauth/rotating-issuer.ts';
import { ClusterProcesses, until } from '../support/cluster-processes.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import type { Json } from '../support/raw-http.ts';
import { WireClient } from '../support/wire-client.ts';

test('proto:D5 S3.5 clients of every node are asked, one login at any node is enough, and all their calls go on', {
  timeout: 120_000,
}, async (t) => {
  const [issuer, database, cluster] = await Promise.all([
    RotatingIssuer.start(),
    PostgresServer.start(),
    ClusterProcesses.start(),
  ]);
  t.after(async () => {
    await cluster.dispose();
    await issuer.stop();
    await database[Symbol.asyncDispose]();
  });
  const mcpServers = { one: { type: 'http', url: issuer.urlOf('one') } };
  const store = { cluster: { store: database.url } };
  const [a, b] = [await cluster.node('a', mcpServers, store), await cluster.node('b', mcpServers, store)];
  const questions: Json[] = [];
  const calls = [];
  for (const era of ['stateful', 'stateless'] as const) {
    for (const { mcpUrl } of [a, b]) {
      const client = new WireClient(mcpUrl, era, { capabilities: { elicitation: { url: {} } } });
      if (era === 'stateful') await client.initialize();
      client.answer = ({ params }) => {
        questions.push(params);
        return { action: 'accept' };
      };
      const echo = { name: 'one__echo', arguments: { text: era } };
      calls.push(
        client.request('tools/call', echo).then(async ({ message }) => {
          if (era === 'stateful') return message;
          const { inputRequests, requestState } = message.result;
          questions.push(inputRequests.ask1.params);
          const inputResponses = { ask1: { action: 'accept' } };
          return (await client.request('tools/call', { ...echo, requestState, inputResponses })).message;
        }),
      );
    }
  }
  await until(() => questions.length === 4, 'a question to each client');
  assert.equal(new Set(questions.map(({ url }) => url)).size, 2, 'each is sent to the page of its own node');
  const page = `${new URL(b.mcpUrl).origin}/oauth/login/one`;
  const begun = await fetch(page, { method: 'POST', redirect: 'manual', body: new URLSearchParams() });
  assert.equal(begun.status, 303, await begun.text());
  const back = await issuer.authorize(begun.headers.get('location')!);
  const ended = await fetch(back, { headers: { cookie: begun.headers.get('set-cookie')!.split(';')[0]! } });
  assert.equal(ended.status, 200, await ended.text());
  for (const answered of await Promise.all(calls)) {
    assert.match(answered.result?.content[0].text ?? JSON.stringify(answered), /^state(ful|less)$/);
  }
});
