import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, test } from 'node:test';
import type { EventReader, Json } from '../support/raw-http.ts';
import { ADA, Arena, type Headers, modern } from './arena.ts';

/** Group ids: one agent names ids that calls of another agent may have at the server that both share. */

const OBEYING = resolve(import.meta.dirname, 'obeying-server.mjs');
const EVE = { authorization: 'Bearer key-of-eve-0123456789' };

let arena: Arena;
before(async () => {
  arena = await Arena.start({
    agents: true,
    settings: { agents: { ada: { key: ADA.authorization.slice(7) }, eve: { key: 'key-of-eve-0123456789' } } },
    servers: { desk: { command: process.execPath, args: [OBEYING] } },
  });
});
after(() => arena.stop());

const PATH = '/servers/desk/mcp';

async function called(agent: Headers, name: string, args: Json = {}, meta: object = {}): Promise<string> {
  const { body, headers } = modern('tools/call', { name, arguments: args }, `${name} of eve`, meta);
  const reply = await arena.post(body, { ...headers, ...agent }, PATH);
  const events = reply.text.startsWith('{') ? [reply.text] : reply.text.split(/^data: /m).slice(1);
  return JSON.parse(events.at(-1)!).result.content[0].text;
}

/** The messages that ada received for her call. */
interface Heard {
  readonly progress: readonly string[];
  readonly result: string;
}

async function waitsAt(agent: Headers, token: string): Promise<{ readonly heard: () => Promise<Heard> }> {
  const { body, headers } = modern('tools/call', { name: 'wait', arguments: {} }, token, { progressToken: token });
  const stream: EventReader | Promise<EventReader> = arena.listen({ body, headers }, agent, PATH);
  return {
    heard: async () => {
      const reader = await stream;
      const progress: string[] = [];
      for (;;) {
        const message = JSON.parse((await reader.next())!.data) as Json;
        if (message.method === 'notifications/progress') progress.push(message.params.message);
        else return { progress, result: message.result.content[0].text };
      }
    },
  };
}

test('security:13 an id that a client guesses from its own calls matches no call of another client', async () => {
  const victims = await Promise.all(Array.from({ length: 8 }, (_, i) => waitsAt(ADA, `token-${i}`)));
  const seen: number[] = [];
  for (let open = 0; open < 8 || seen.length < 30; ) {
    const shown = JSON.parse(await called(EVE, 'show', {}, { progressToken: 1 }));
    open = shown.open;
    seen.push(shown.id, shown.token);
  }
  const guesses = new Set<number>();
  const differences = seen.slice(2).map((id, i) => id - seen[i]!);
  for (let n = 0; n < 3_000; n++) guesses.add(n);
  for (const id of seen) {
    for (let n = -300; n <= 300; n++) guesses.add(id + n);
    for (const step of differences) guesses.add(id + step).add(id - step);
  }
  for (const own of seen) guesses.delete(own);
  const named = [...guesses].filter((id) => Number.isSafeInteger(id) && id > 0);
  assert.ok(named.length > 2_500);
  for (let at = 0; at < named.length; at += 1_000) {
    assert.equal(await called(EVE, 'abuse', { ids: named.slice(at, at + 1_000) }), '0', 'calls were hit');
  }
  assert.equal(await called(EVE, 'go'), '8');
  for (const victim of victims) {
    assert.deepEqual(await victim.heard(), { progress: ['its own'], result: 'its own' });
  }
  await arena.alive();
});
