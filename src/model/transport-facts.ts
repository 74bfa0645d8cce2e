import { revealed } from './secret.ts';
import type { TransportSpec } from './server.ts';

/**
 * What a way to a server consists of, for digests: equal texts of equal ways, whatever order their members were written
 * in, and in whatever case the names of headers. Secrets are in it as they are, so only a digest of it may be kept.
 */
export function transportFacts(transport: TransportSpec): unknown {
  switch (transport.type) {
    case 'memory':
      return ['memory', transport.key];
    case 'stdio': {
      const { command, args, env, inheritEnv, cwd, ssh = null, runAs = null } = transport;
      const inherited = typeof inheritEnv === 'boolean' ? inheritEnv : [...inheritEnv].sort();
      const elsewhere = [...(ssh === null ? [] : [ssh]), ...(runAs === null ? [] : [{ runAs }])];
      return ['stdio', command, args, sorted(revealed(env)), inherited, cwd, ...elsewhere];
    }
    case 'docker':
      return ['docker', transport.target, sorted(revealed(transport.env)), transport.engine];
    default: {
      const { type, url, sseFallback = false, headers, tls } = transport;
      const lowered = Object.entries(revealed(headers)).map(([name, value]) => [name.toLowerCase(), value]);
      const named = sorted(Object.fromEntries(lowered));
      return [type, url, sseFallback, named, tls.ca ?? null, tls.cert ?? null, tls.key?.reveal() ?? null];
    }
  }
}

function sorted(map: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}
