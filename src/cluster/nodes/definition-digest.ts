import { createHmac } from 'node:crypto';
import { dirname, relative } from 'node:path';
import type { Server, TransportSpec } from '../../model/server.ts';
import { transportFacts } from '../../model/transport-facts.ts';

/**
 * Equal digests: two nodes mean the same server, so that either can serve its calls. Keyed, because secrets are in it and
 * it leaves the process. Where a node keeps its file does not count, nor what only people read, nor what each node decides
 * for itself: how many processes, when they are started and asked after, what is done about drift.
 */
export function definitionDigest(server: Server, key: Buffer): string {
  const { name, transport, isolation, isolationHeader, timeoutMs, retry, trusted, cache, tools, limits } = server;
  const facts = [
    name,
    transportFacts(besideFile(transport, dirname(server.origin.file))),
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

/** Where each node keeps its files is its own affair: what is in the same place beside them is the same. */
function besideFile(transport: TransportSpec, folder: string): TransportSpec {
  const here = transport.type === 'stdio' && (transport.ssh ?? null) === null;
  return here ? { ...transport, cwd: relative(folder, transport.cwd) } : transport;
}
