import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type AgentCall, runAgent } from '../support/agents/agent.ts';
import { AGENTS } from '../support/agents/agents.ts';
import { FOUR_SERVERS, ONE_CALL_EACH } from '../support/four-servers.ts';
import { manySided } from '../support/many-sided.ts';
import { SDK_CLIENTS } from '../support/real-servers/sdk-clients.ts';
import { runProgram } from '../support/run-program.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const INSPECTOR = resolve(import.meta.dirname, '../../node_modules/.bin/inspector');
/** One call to each of the four real servers, and one to a server with a second version that answers differently. */
const CALLS = [...ONE_CALL_EACH, { server: 'many', tool: 'echo', args: { text: 'hello' }, answer: 'hello' }];

interface Recorded {
  readonly id: string;
  readonly servers: readonly string[];
  readonly sessions: readonly string[];
}
interface Replayed {
  readonly differences: readonly { request: string; path: string; before: string; after: string }[];
}

describe('replays of sessions of real clients', { timeout: 600_000 }, () => {
  let gateway: RunningGateway;
  // The first client with new capabilities gets the list of others, so each has its own gateway and connects twice.
  beforeEach(async () => {
    gateway = await RunningGateway.start({
      config: {
        mcpServers: {
          ...FOUR_SERVERS.mcpServers,
          many: manySided('many'),
          'many-changed': manySided('many', { CHANGED: '1' }),
        },
      },
    });
    await gateway.ready();
  });
  afterEach(() => gateway.dispose());

  /** Records the messages of every session to each server, and replays them to the same and to another version. */
  async function recorded(use: (calls: readonly AgentCall[]) => Promise<boolean>): Promise<void> {
    const post = <T>(path: string, body: object): Promise<T> => gateway.control(path, 'POST', JSON.stringify(body));
    const calls = CALLS.map(({ server, tool, args }) => ({ tool: `${server}__${tool}`, args }));
    // The processes of a client without sessions keep running, so the first use calls no tool that counts its calls.
    if (!(await use(calls.slice(0, 1)))) return;
    const { id } = await post<Recorded>('/api/v1/recordings', { principal: 'anonymous' });
    await use(calls);
    const { servers } = await gateway.control<Recorded>(`/api/v1/recordings/${id}/stop`, 'POST');
    const called = [...new Set(CALLS.map(({ server }) => server))].sort();
    assert.deepEqual([...servers].sort(), called);
    for (const server of called) {
      const same = await post<Replayed>('/api/v1/replays', { recording: id, of: server, server });
      assert.deepEqual(same.differences, [], server);
      const filter = encodeURIComponent(`principal:operator server:${server}`);
      const again = await gateway.control<{ calls: { name: string }[] }>(`/api/v1/calls?filter=${filter}`);
      const { tool } = CALLS.find((call) => call.server === server)!;
      assert.ok(
        again.calls.some(({ name }) => name === tool),
        `${server}: ${tool} was not called again`,
      );
    }
    const { differences } = await post<Replayed>('/api/v1/replays', {
      recording: id,
      of: 'many',
      server: 'many-changed',
    });
    assert.deepEqual(
      differences.map(({ request, path, before, after }) => [request, path, before, after]),
      [
        ['tools/list', '$.result.tools["echo"].description', null, '"In capitals."'],
        ['tools/call echo', '$.result.content[0].text', '"hello"', '"HELLO"'],
      ],
    );
    await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
  }

  for (const agent of AGENTS) {
    test(agent.name, async (context) => {
      await recorded(async (calls) => {
        const run = await runAgent(agent, gateway.mcpUrl, calls);
        if (run === null) context.skip(`${agent.name} could not be installed`);
        else assert.equal(run.failure, null);
        return run !== null;
      });
    });
  }

  for (const sdk of SDK_CLIENTS) {
    test(sdk.name, async (context) => {
      if (!(await sdk.prepare())) return context.skip(`the ${sdk.name} cannot be had here`);
      // Its tools depend on the client. At its own endpoint the client waits for the list that is made for it.
      await sdk.run(gateway.serverUrl('everything'), []);
      await recorded(async (calls) => {
        const { results } = await sdk.run(gateway.mcpUrl, calls);
        assert.equal(results.length, calls.length);
        return true;
      });
    });
  }

  for (const era of ['legacy', 'modern'] as const) {
    test(`Inspector CLI, ${era}: its session of one call`, async () => {
      const config = join(gateway.folder, `inspector-${era}.json`);
      const entry = { type: 'streamable-http', url: gateway.serverUrl('many'), protocolEra: era };
      writeFileSync(config, JSON.stringify({ mcpServers: { tl: entry } }));
      const post = <T>(path: string, body: object): Promise<T> => gateway.control(path, 'POST', JSON.stringify(body));
      const { id } = await post<Recorded>('/api/v1/recordings', { principal: 'anonymous' });
      const words = ['--method', 'tools/call', '--tool-name', 'echo', '--tool-arg', 'text=hello'];
      const { code, err } = await runProgram([INSPECTOR, '--cli', '--config', config, '--server', 'tl', ...words]);
      assert.equal(code, 0, err);
      await gateway.control(`/api/v1/recordings/${id}/stop`, 'POST');
      const same = await post<Replayed>('/api/v1/replays', { recording: id, server: 'many' });
      assert.deepEqual(same.differences, []);
      const other = await post<Replayed>('/api/v1/replays', { recording: id, server: 'many-changed' });
      const places = other.differences.map(({ path }) => path);
      assert.ok(places.includes('$.result.content[0].text'), places.join());
      assert.deepEqual(
        places.filter((path) => !/content\[0\]\.text|tools\["echo"\]\.description/.test(path)),
        [],
      );
      await gateway.control(`/api/v1/recordings/${id}`, 'DELETE');
    });
  }
});
