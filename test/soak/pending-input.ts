import { until } from '../faults/fault-bench.ts';
import { resultOf } from '../fixtures/http/rpc.ts';
import { eventText, openEvents } from '../fixtures/http/stage.ts';
import { StatefulServer } from '../fixtures/http/stateful.ts';
import { inLanes } from './lean-client.ts';
import { ProbedGateway } from './probed-gateway.ts';
import { figure, type Outcome, type Proof, type Run } from './proof.ts';

const KIB = 1024;
const MIB = KIB * KIB;
const LANES = 16;
/** Calls parked and answered before the measurement, which excludes memory that is allocated only once. */
const WARM_UP = 100;

interface Asked {
  readonly resultType: string;
  readonly inputRequests: Record<string, unknown>;
  readonly requestState: string;
}

/** The scenario at any size; `npm test` runs it small. */
export async function leavePending({ say }: Pick<Run, 'say'>, calls: number): Promise<Outcome> {
  const gateway = new ProbedGateway();
  const server = await askingServer();
  try {
    const transport = { type: 'http' as const, url: server.url };
    await gateway.start({ one: transport }, { log: { level: 'warn' } });
    await answerAll(gateway.url, await ask(gateway.url, WARM_UP));
    const before = await gateway.probe();
    const asked = await ask(gateway.url, calls);
    say(`${asked.length} calls are parked`);
    const during = await gateway.probe();
    const done = await answerAll(gateway.url, asked);
    await until(
      'the upstream streams have ended',
      async () => (await gateway.probe()).descriptors <= before.descriptors + 5,
      30_000,
    );
    const after = await gateway.probe();
    const each = (bytes: number): number => bytes / calls / KIB;
    return {
      figures: [
        figure('calls waiting for input', asked.length, ''),
        figure('resident memory of each', each(during.rssBytes - before.rssBytes), 'KiB', 64),
        figure('heap of each, after GC', each(during.heapBytes - before.heapBytes), 'KiB'),
        figure('buffers of each', each(during.externalBytes - before.externalBytes), 'KiB'),
        figure('heap after all have ended and GC, over base', (after.heapBytes - before.heapBytes) / MIB, 'MiB'),
        figure('timers more than before', after.timers - before.timers, '', 0),
      ],
      broken: done === calls ? [] : [`${calls - done} of ${calls} calls did not end with their result`],
    };
  } finally {
    await gateway.bench.dispose();
    await server.stop();
  }
}

/** A stateful server whose one tool asks its client before it answers. */
async function askingServer(): Promise<StatefulServer> {
  const waiting = new Map<string, () => void>();
  let asks = 0;
  return StatefulServer.start({
    intercept: (message, { res }) => {
      if (message.method === undefined) {
        waiting.get(String(message.id))?.();
        res.writeHead(202).end();
        return true;
      }
      if (message.method !== 'tools/call') return false;
      const id = `ask-${++asks}`;
      openEvents(res);
      const params = {
        message: 'Who are you?',
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
      };
      res.write(eventText({ data: JSON.stringify({ jsonrpc: '2.0', id, method: 'elicitation/create', params }) }));
      waiting.set(id, () => {
        waiting.delete(id);
        res.end(eventText({ data: resultOf(message, { content: [{ type: 'text', text: id }] }) }));
      });
      return true;
    },
  });
}

async function ask(url: URL, count: number): Promise<Asked[]> {
  const asked: Asked[] = [];
  await inLanes(count, LANES, async (i) => {
    const result = (await call(url, i, {})) as Asked;
    if (result.resultType !== 'input_required') throw new Error(`not asked: ${JSON.stringify(result)}`);
    asked[i] = result;
  });
  return asked;
}

/** How many of the calls ended with a result. */
async function answerAll(url: URL, asked: readonly Asked[]): Promise<number> {
  let done = 0;
  await inLanes(asked.length, LANES, async (i) => {
    const { inputRequests, requestState } = asked[i]!;
    const answer = { action: 'accept', content: { name: 'n' } };
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
    const result = (await call(url, i, { inputResponses, requestState })) as Asked;
    if (result.resultType === 'complete') done++;
  });
  return done;
}

async function call(url: URL, number: number, more: object): Promise<unknown> {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'prover', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
  };
  const params = { name: 'one__echo', arguments: { text: `call ${number}` }, ...more, _meta: meta };
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': params.name,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: number, method: 'tools/call', params }),
  });
  const answer = (await response.json()) as { result?: unknown };
  return answer.result ?? answer;
}

export const PENDING_INPUT: Proof = {
  id: 'parked',
  group: 'soak',
  claim:
    '1 000 calls of stateless clients that wait for input, before a stateful HTTP server, take ≤ 64 KiB resident memory each',
  shortened: null,
  run: (run) => leavePending(run, 1_000),
};
