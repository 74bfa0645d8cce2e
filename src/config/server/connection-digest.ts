import { createHash } from 'node:crypto';
import { revealed } from '../../model/secret.ts';
import type { Server, TransportSpec } from '../../model/server.ts';

type Digested = Pick<Server, 'transport' | 'isolation' | 'isolationHeader'> & { readonly maxMessageBytes: number };

/**
 * Equal digests: a connection made for one definition serves the other. Covers what the connection is made of
 * (S3.12: type, command, arguments in order, environment, url, headers) and who may share it; not the name, the
 * description, deadlines or filters, which take effect without a new connection.
 */
export function connectionDigest({ transport, isolation, isolationHeader, maxMessageBytes }: Digested): string {
  const facts = [transportFacts(transport), isolation, isolationHeader?.toLowerCase() ?? null, maxMessageBytes];
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

function transportFacts(transport: TransportSpec): unknown {
  if (transport.type === 'memory') return ['memory', transport.key];
  if (transport.type === 'stdio') {
    const { command, args, env, inheritEnv, cwd, ssh = null, runAs = null } = transport;
    const inherited = typeof inheritEnv === 'boolean' ? inheritEnv : [...inheritEnv].sort();
    const elsewhere = [...(ssh === null ? [] : [ssh]), ...(runAs === null ? [] : [{ runAs }])];
    return ['stdio', command, args, sorted(revealed(env)), inherited, cwd, ...elsewhere];
  }
  if (transport.type === 'docker')
    return ['docker', transport.target, sorted(revealed(transport.env)), transport.engine];
  const { type, url, sseFallback = false, headers, tls } = transport;
  const lowered = Object.fromEntries(
    Object.entries(revealed(headers)).map(([name, value]) => [name.toLowerCase(), value]),
  );
  return [type, url, sseFallback, sorted(lowered), tls.ca ?? null, tls.cert ?? null, tls.key?.reveal() ?? null];
}

function sorted(map: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}
