import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asSecrets } from '../../test/support/as-secrets.ts';
import type { Server, TransportSpec } from '../model/server.ts';
import { diffServers } from '../model/servers-diff.ts';
import { argvServer, connectionDigest } from './server/plain-server.ts';

const ROUNDS = 4_000;
const BASE = argvServer(['a'], '/')!;

/** A definition in the words of S3.12. */
interface RandomDefinition {
  readonly type: 'stdio' | 'http' | 'sse';
  readonly command: string;
  readonly url: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly enabled: boolean;
  readonly start: Server['start'];
  readonly description: string | null;
}

/** The same sequence at every run, and few values each, so that single differences are common. */
class Choices {
  #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  of<T>(values: readonly T[]): T {
    this.#seed = (Math.imul(this.#seed, 1_664_525) + 1_013_904_223) >>> 0;
    return values[(this.#seed >>> 16) % values.length]!;
  }
}

function anyDefinition(choices: Choices): RandomDefinition {
  return {
    type: choices.of(['stdio', 'http', 'sse'] as const),
    command: choices.of(['a', 'b']),
    url: choices.of(['https://x/', 'https://y/']),
    cwd: choices.of(['/', '/tmp']),
    args: choices.of([[], ['1', '2'], ['2', '1'], ['12']]),
    env: choices.of<RandomDefinition['env']>([{}, { A: '1' }, { A: '1', B: '2' }, { B: '2', A: '1' }, { A: '2' }]),
    headers: choices.of<RandomDefinition['headers']>([
      {},
      { X: '1' },
      { X: '2' },
      { X: '1', Y: '2' },
      { Y: '2', X: '1' },
    ]),
    timeoutMs: choices.of([1_000, 2_000]),
    enabled: choices.of([true, false]),
    start: choices.of(['eager', 'lazy'] as const),
    description: choices.of([null, 'words', 'other words']),
  };
}

/** One key, or now and then a few, taken from another definition. */
function varied(from: RandomDefinition, choices: Choices): RandomDefinition {
  const other = anyDefinition(choices);
  let changed = from;
  for (let i = choices.of([0, 1, 1, 1, 3]); i > 0; i--) {
    const key = choices.of(Object.keys(from) as (keyof RandomDefinition)[]);
    changed = { ...changed, [key]: other[key] };
  }
  return changed;
}

function serverOf(definition: RandomDefinition, line: number): Server {
  const { type, command, cwd, url, args, env, headers, ...live } = definition;
  const transport: TransportSpec =
    type === 'stdio'
      ? { type, command, args, env: asSecrets(env), inheritEnv: false, cwd }
      : { type, url, headers: asSecrets(headers), tls: {} };
  const server = { ...BASE, transport, ...live, origin: { file: 'f', line, column: 1 } };
  const { isolation, isolationHeader } = server;
  const { maxMessageBytes } = server.limits;
  return {
    ...server,
    connectionDigest: connectionDigest({ transport, isolation, isolationHeader, maxMessageBytes }),
  };
}

/** The table of S3.12, by the definitions alone: whether a member changed that its type connects by. */
function needsConnection(a: RandomDefinition, b: RandomDefinition): boolean {
  if (a.type !== b.type) return true;
  if (a.type !== 'stdio') return a.url !== b.url || !sameMap(a.headers, b.headers);
  return (
    a.command !== b.command || a.cwd !== b.cwd || a.args.join('\n') !== b.args.join('\n') || !sameMap(a.env, b.env)
  );
}

function sameMap(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

test('S3.12 check:A7 for any two definitions: which changes need a new connection, which do not, which are no change', () => {
  const choices = new Choices(2026);
  const seen = { changed: 0, updated: 0, same: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    const a = anyDefinition(choices);
    const b = varied(a, choices);
    const diff = diffServers(new Map([['s', serverOf(a, 1)]]), new Map([['s', serverOf(b, round)]]));
    const live = (['timeoutMs', 'enabled', 'start', 'description'] as const).some((key) => a[key] !== b[key]);
    const expected = needsConnection(a, b) ? 'changed' : live ? 'updated' : 'same';
    assert.deepEqual(diff[expected], ['s'], `${expected}: ${JSON.stringify([a, b])}`);
    seen[expected]++;
    // The opposite change has the same result, and a definition does not differ from itself.
    const back = diffServers(new Map([['s', serverOf(b, 1)]]), new Map([['s', serverOf(a, 1)]]));
    assert.deepEqual(back[expected], ['s']);
    assert.deepEqual(diffServers(new Map([['s', serverOf(a, 1)]]), new Map([['s', serverOf({ ...a }, 2)]])).same, [
      's',
    ]);
  }
  for (const count of Object.values(seen)) assert.ok(count > ROUNDS / 20, JSON.stringify(seen));
});
