import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { manySided } from '../support/many-sided.ts';
import type { Json } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

/** A server dies while clients use it: they get their subscriptions again, and a notification of what they may have missed. */

const UPDATED = 'notifications/resources/updated';
const CHANGED = 'notifications/tools/list_changed';

let gateway: RunningGateway;
before(async () => {
  const mcpServers = { stateful: manySided('stateful'), stateless: manySided('stateless', { ERA: 'stateless' }) };
  gateway = await RunningGateway.start({ config: { mcpServers } });
  await gateway.ready();
});
after(() => gateway.dispose());

interface Stream {
  message(): Promise<Json>;
  drop(): void;
}

/** All messages on the stream up to the expected one, including it. */
async function heard(stream: Stream, until: (message: Json) => boolean): Promise<Json[]> {
  const messages: Json[] = [];
  for (;;) {
    const message = await stream.message();
    messages.push(message);
    if (until(message)) return messages;
  }
}

async function listening(client: WireClient, uri: string): Promise<Stream> {
  if (client.era === 'stateless') {
    const stream = await client.listening({ toolsListChanged: true, resourceSubscriptions: [uri] });
    return stream;
  }
  const stream = await client.listen();
  await client.result('resources/subscribe', { uri });
  return stream;
}

for (const client of ['stateful', 'stateless'] as const) {
  for (const server of ['stateful', 'stateless'] as const) {
    for (const endpoint of ['/mcp', `/servers/${server}/mcp`]) {
      test(`check:B8 check:G3 a ${server} server dies under a ${client} client of ${endpoint}: one list_changed, the resource is reported as updated`, async () => {
        const name = (tool: string) => (endpoint === '/mcp' ? `${server}__${tool}` : tool);
        const uri = `side://${server}/doc`;
        const ours = new WireClient(new URL(endpoint, gateway.mcpUrl).href, client);
        if (client === 'stateful') await ours.initialize();
        const stream = await listening(ours, uri);
        // The stateful fixture sends an update soon after each subscription.
        if (server === 'stateful') await heard(stream, ({ method }) => method === UPDATED);
        const { pid } = JSON.parse(await ours.callText(name('who')));
        process.kill(pid, 'SIGKILL');
        const seen = new Set<string>();
        const since = await heard(stream, ({ method }) => {
          seen.add(method);
          return seen.has(CHANGED) && seen.has(UPDATED);
        });
        assert.ok(since.filter(({ method }) => method === UPDATED).every(({ params }) => params.uri === uri));
        assert.notEqual(JSON.parse(await ours.callText(name('who'))).pid, pid);
        // The next one is for a list that did change.
        const tool = `grown-${client}-${endpoint.length}`;
        await ours.call(name('grow'), { name: tool });
        since.push(...(await heard(stream, ({ method }) => method === CHANGED)));
        assert.equal(since.filter(({ method }) => method === CHANGED).length, 2);
        assert.ok((await ours.toolNames()).includes(name(tool)));
        stream.drop();
      });
    }
  }
}
