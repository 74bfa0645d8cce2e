import { createHmac } from 'node:crypto';
import { dirname, relative } from 'node:path';
import { revealed } from '../../model/secret.ts';
import type { Server, TransportSpec } from '../../model/server.ts';

/**
 * Equal digests: two nodes mean the same server, so that either can serve its calls. Keyed, because secrets are in it and
 * it leaves the process. Where a node keeps its file does not count, nor what only people read, nor what each node decides
 * for itself: how many processes, when they are started and asked after, what is done about drift.
 */
export function definitionDigest(server: Server, key: Buffer): string {
  const { name, transport, isolation, isolationHeader, timeoutMs, retry, trusted, cache, tools, limits } = server;
  const facts = [
    name,
    transportFacts(transport, dirname(server.origin.file)),
    isolation,
    isolationHeader?.toLowerCase() ?? null,
    server.singleton === true,
    timeoutMs,
    [...server.toolTimeoutMs].sort(),
    retry,
    trusted,
    cache,
    tools.include === null ? null : [...tools.include].sort(),
    [...tools.exclude].sort(),
    limits.maxMessageBytes,
  ];
  return createHmac('sha256', key).update(JSON.stringify(facts)).digest('hex');
}

/** In a form of its own: nodes of the version before have to come to the same digests, null for no host of another included. */
function transportFacts(transport: TransportSpec, folder: string): unknown {
  switch (transport.type) {
    case 'memory':
      return ['memory', transport.key];
    case 'stdio': {
      const { command, args, env, inheritEnv, cwd, ssh = null, runAs = null } = transport;
      const inherited = typeof inheritEnv === 'boolean' ? inheritEnv : [...inheritEnv].sort();
      return [
        'stdio',
        command,
        args,
        sorted(revealed(env)),
        inherited,
        ssh === null ? relative(folder, cwd) : cwd,
        ssh,
        ...(runAs === null ? [] : [{ runAs }]),
      ];
    }
    case 'docker':
      return ['docker', transport.target, sorted(revealed(transport.env)), transport.engine];
    default: {
      const { type, url, sseFallback = false, headers, tls } = transport;
      return [
        type,
        url,
        sseFallback,
        sorted(revealed(headers)),
        tls.ca ?? null,
        tls.cert ?? null,
        tls.key?.reveal() ?? null,
      ];
    }
  }
}

function sorted(map: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(map)
    .map(([name, value]) => [name, value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
}
