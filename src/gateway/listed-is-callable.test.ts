import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Seeded } from '../../test/chaos/seeded.ts';
import { DriftBench } from '../../test/support/drift-bench.ts';
import {
  agent,
  type Call,
  client,
  endpointOf,
  MCP,
  type RunOptions,
  serverNamed,
} from '../../test/support/gateway-bench.ts';
import type { Advertisement } from '../../test/support/server-catalogs.ts';
import { ANONYMOUS } from '../model/client-profile.ts';
import type { DriftPolicy } from '../model/drift.ts';
import type { Era } from '../model/message.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { errorAnswer, result } from '../protocol/compose.ts';
import { namedParam } from './params.ts';

const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const CASES = 40;
const NAMES = ['a', 'b', 'c', 'd'];
/** The input schema of one wording in three: its declaration of a header is invalid (proto:H6). */
const VOID = { type: 'object', properties: { x: { type: 'object', 'x-mcp-header': 'X' } } };
const POLICIES: readonly DriftPolicy[] = ['off', 'warn', 'hold', 'block'];

/** How each kind of item is listed, and used in all ways that there are; `name` is the client's name for it. */
type Use = readonly [method: string, params: object];

const HTTP = { type: 'http', url: 'http://127.0.0.1/', headers: {}, tls: {} } as const;

const KINDS = {
  tools: {
    list: 'tools/list',
    key: 'name',
    uses: (name: string, tasks: boolean): readonly Use[] => [
      ['tools/call', { name }],
      ['tools/call', { name, arguments: { x: 1 }, _meta: { progressToken: 'p' } }],
      ...(tasks ? ([['tools/call', { name, task: {} }]] as const) : []),
    ],
  },
  prompts: {
    list: 'prompts/list',
    key: 'name',
    uses: (name: string): readonly Use[] => [
      ['prompts/get', { name }],
      ['completion/complete', { ref: { type: 'ref/prompt', name }, argument: { name: 'x', value: '' } }],
    ],
  },
  resourceTemplates: {
    list: 'resources/templates/list',
    key: 'uriTemplate',
    uses: (uri: string): readonly Use[] => [
      ['completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name: 'x', value: '' } }],
    ],
  },
} as const;
type Kind = keyof typeof KINDS;
const KIND_NAMES = Object.keys(KINDS) as Kind[];

function chance(random: Seeded, of: number): boolean {
  return random.unit() < of;
}

/** One server as it is at an instant: which definitions it has, each in one of three wordings. */
class PlayedServer {
  readonly name: string;
  readonly era: Era;
  readonly tasks: boolean;
  readonly overHttp: boolean;
  readonly has: Record<Kind, Map<string, number>> = {
    tools: new Map(),
    prompts: new Map(),
    resourceTemplates: new Map(),
  };

  constructor(name: string, random: Seeded) {
    this.name = name;
    this.era = chance(random, 0.5) ? 'stateful' : 'stateless';
    this.tasks = chance(random, 0.4);
    this.overHttp = chance(random, 0.5);
  }

  /** Removes some definitions, adds some and changes some. */
  change(random: Seeded): void {
    for (const kind of KIND_NAMES) {
      this.has[kind].clear();
      for (const name of NAMES) if (chance(random, 0.7)) this.has[kind].set(this.own(kind, name), random.below(3));
    }
  }

  own(kind: Kind, name: string): string {
    return kind === 'resourceTemplates' ? `${this.name}:///${name}/{x}` : name;
  }

  items(kind: Kind): string[] {
    return Array.from(this.has[kind], ([name, wording]) => {
      const inputSchema = wording === 2 ? VOID : { type: 'object' };
      const more = kind === 'tools' ? { inputSchema } : kind === 'prompts' ? {} : { name };
      return JSON.stringify({ [KINDS[kind].key]: name, description: `wording ${wording}`, ...more });
    });
  }

  advertisement(): Advertisement {
    const tasks =
      this.era === 'stateful'
        ? { tasks: { requests: { tools: { call: {} } } } }
        : { extensions: { 'io.modelcontextprotocol/tasks': {} } };
    const lists = { listChanged: true };
    return {
      era: this.era,
      mirrored: this.overHttp,
      tools: this.items('tools'),
      prompts: this.items('prompts'),
      resourceTemplates: this.items('resourceTemplates'),
      capabilities: { tools: lists, prompts: lists, resources: lists, completions: {}, ...(this.tasks ? tasks : {}) },
    };
  }

  /** Answers like a real server: an unknown item is an error. */
  respond({ request }: Call): Outcome {
    const found = KIND_NAMES.find((kind) => KINDS[kind].list === request.method);
    const complete = request.era === 'stateless' ? '"resultType":"complete",' : '';
    // Pages are in the server's own era, as upstream/ passes them on.
    if (found !== undefined) {
      const key = found === 'resourceTemplates' ? 'resourceTemplates' : found;
      return answer(result('9', `{"${key}":[${this.items(found).join(',')}]}`, this.era));
    }
    const within = request.method === 'completion/complete' ? 'ref' : undefined;
    const name = namedParam(request, 'name', within);
    const uri = namedParam(request, 'uri', within);
    const has = KIND_NAMES.some((kind) => {
      const wanted = kind === 'resourceTemplates' ? uri : name;
      const right = KINDS[kind].uses('', true).some(([method]) => method === request.method);
      return right && 'value' in wanted && this.has[kind].has(wanted.value);
    });
    if (!has) return answer(errorAnswer('9', -32602, 'it is not known', null, request.era));
    if (request.body.includes('"task"') && request.era === 'stateful') {
      const task = { taskId: `t-${Math.random()}`, status: 'working', createdAt: 'x', lastUpdatedAt: 'x', ttl: 1_000 };
      return answer(result('9', JSON.stringify({ task }), 'stateful'));
    }
    return answer(result('9', `{${complete}"content":[],"completion":{"values":[]},"messages":[]}`, request.era));
  }
}

async function stage(
  random: Seeded,
): Promise<{ readonly bench: DriftBench; readonly servers: readonly PlayedServer[] }> {
  const servers = ['s', 't', 'u'].slice(0, 1 + random.below(3)).map((name) => new PlayedServer(name, random));
  const policies = Object.fromEntries(servers.map(({ name }) => [name, POLICIES[random.below(4)]!]));
  const bench = await DriftBench.of(policies);
  const some = (): Set<string> => new Set(NAMES.filter(() => chance(random, 0.6)));
  const { upstreams } = bench.bench;
  upstreams.list = servers.map(({ name, overHttp }) =>
    serverNamed(name, {
      ...(overHttp ? { transport: HTTP } : {}),
      drift: policies[name]!,
      tools: { include: chance(random, 0.4) ? some() : null, exclude: chance(random, 0.4) ? some() : new Set() },
      cache: chance(random, 0.7),
    }),
  );
  upstreams.respond = (call) => servers.find(({ name }) => name === call.server)!.respond(call);
  for (const server of servers) if (chance(random, 0.5)) upstreams.owned.add(server.name);
  // The first definitions are trusted; then the server changes, and the operator decides on some changes.
  for (let round = 0; round < 1 + random.below(3); round++) {
    for (const server of servers) {
      server.change(random);
      await bench.offer(server.name, server.advertisement());
      const { waiting } = await bench.drift.report(server.name);
      const approved = waiting.filter(() => chance(random, 0.3));
      await bench.drift.approve(server.name, approved, 'operator');
      const blocked = KIND_NAMES.filter(() => chance(random, 0.3)).map((list) => {
        return { list, key: server.own(list, NAMES[random.below(4)]!) };
      });
      if (blocked.length > 0) await bench.drift.block(server.name, blocked, 'operator');
    }
  }
  bench.bench.gateway.desiredChanged(() => ANONYMOUS);
  return { bench, servers };
}

/** All names of one list, on all pages; empty where the caller is refused. */
async function listed(bench: DriftBench, kind: Kind, options: RunOptions): Promise<ReadonlySet<string>> {
  const outcome = await bench.bench.run(KINDS[kind].list, null, options);
  if (outcome.kind === 'failure' || outcome.message.kind === 'error') return new Set();
  const page = JSON.parse(outcome.message.body.toString())[kind] as readonly Record<string, string>[];
  return new Set(page.map((item) => item[KINDS[kind].key]!));
}

/** Whether the server itself got the request, and answered it with a result. */
async function isServed(bench: DriftBench, method: string, params: object, options: RunOptions): Promise<boolean> {
  const before = bench.bench.upstreams.calls.length;
  const outcome = await bench.bench.run(method, JSON.stringify(params), options);
  const sent = bench.bench.upstreams.calls.length > before;
  const failed = outcome.kind === 'failure' || outcome.message.kind === 'error';
  assert.ok(sent || failed, `${method} was answered without the server`);
  return !failed;
}

test('S2.28 S2.31 check:G4 listed items are exactly the usable ones, for any configuration, caller, era and path', async (t) => {
  t.diagnostic(`SEED=${SEED}`);
  let [shown, refused] = [0, 0];
  for (let i = 0; i < CASES; i++) {
    const random = new Seeded(SEED + i);
    const { bench, servers } = await stage(random);
    const agents = agent('x', ...servers.map(({ name }) => name).filter(() => chance(random, 0.5)));
    for (const principal of [ANONYMOUS, agents]) {
      for (const era of ['stateful', 'stateless'] as const) {
        for (const sessionId of era === 'stateful' ? ['one', 'two'] : [null]) {
          const profile = client(era, { principal, sessionId });
          for (const kind of KIND_NAMES) {
            const all = await listed(bench, kind, { client: profile, endpoint: MCP });
            for (const server of servers) {
              const own = await listed(bench, kind, { client: profile, endpoint: endpointOf(server.name) });
              for (const name of NAMES.map((one) => server.own(kind, one))) {
                const exposed = kind === 'resourceTemplates' ? name : `${server.name}__${name}`;
                for (const [method, params] of KINDS[kind].uses(name, server.tasks && era === 'stateful')) {
                  const where = `SEED=${SEED + i} ${principal.name} ${era} ${method} ${server.name} ${JSON.stringify(params)}`;
                  const single = { client: profile, endpoint: endpointOf(server.name) };
                  assert.equal(
                    await isServed(bench, method, params, single),
                    own.has(name),
                    `${where} on its endpoint`,
                  );
                  const renamed = JSON.parse(
                    JSON.stringify(params).replace(JSON.stringify(name), JSON.stringify(exposed)),
                  );
                  const merged = { client: profile, endpoint: MCP };
                  assert.equal(
                    await isServed(bench, method, renamed, merged),
                    all.has(exposed),
                    `${where} on the aggregate`,
                  );
                  if (own.has(name)) shown++;
                  else refused++;
                }
              }
              assert.deepEqual(
                [...own].filter((name) => !all.has(kind === 'resourceTemplates' ? name : `${server.name}__${name}`)),
                [],
                `SEED=${SEED + i} ${principal.name} ${era} ${kind} of ${server.name}: both endpoints offer the same`,
              );
            }
          }
        }
      }
    }
  }
  assert.ok(shown > CASES && refused > CASES, `${shown} used, ${refused} refused`);
});
