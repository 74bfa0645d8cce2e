import { createHmac } from 'node:crypto';
import { dirname, isAbsolute, relative } from 'node:path';
import { revealed } from '../../model/secret.ts';
import { type Server, sortedEntries, type TransportSpec } from '../../model/server.ts';

/**
 * Nodes with equal digests can serve each other's calls. Keyed, because it covers secrets and leaves the process. Paths of files,
 * descriptions and settings of each node (processes, start, probes, drift) do not count.
 */
export function definitionDigest(server: Server, key: Buffer): string {
  const { name, transport, isolation, isolationHeader, timeoutMs, retry, trusted, cache, tools, limits } = server;
  const facts = [
    name,
    transportFacts(transport, folderOf(server)),
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
    ...(server.callerSeparation === undefined ? [] : [server.callerSeparation]),
  ];
  return createHmac('sha256', key).update(JSON.stringify(facts)).digest('hex');
}

/** Null for a server added at run time, whose folder is the same for all nodes. */
function folderOf({ origin: { file } }: Server): string | null {
  return isAbsolute(file) ? dirname(file) : null;
}

/** Must keep the digests of the previous version, including null for an absent `ssh`. */
function transportFacts(transport: TransportSpec, folder: string | null): unknown {
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
        sortedEntries(revealed(env)),
        inherited,
        ssh === null && folder !== null ? relative(folder, cwd) : cwd,
        ssh,
        ...(runAs === null ? [] : [{ runAs }]),
      ];
    }
    case 'docker':
      return ['docker', transport.target, sortedEntries(revealed(transport.env)), transport.engine];
    default: {
      const { type, url, sseFallback = false, headers, tls } = transport;
      return [
        type,
        url,
        sseFallback,
        sortedEntries(revealed(headers)),
        tls.ca ?? null,
        tls.cert ?? null,
        tls.key?.reveal() ?? null,
      ];
    }
  }
}
