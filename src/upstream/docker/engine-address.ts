import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** How an Engine's API is reached. */
export type EngineAddress =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: EngineTls | null };

export interface EngineTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const DOCKER_SOCKET = '/var/run/docker.sock';
const PODMAN_SOCKET = '/run/podman/podman.sock';

/**
 * The address a definition names, else that of `DOCKER_HOST`, else the first socket that is there: Docker's, rootless
 * Docker's, Podman's own. Throws an Error in words for people.
 */
export function engineAddress(written: string | null, environment: Environment): EngineAddress {
  const text = written ?? (environment['DOCKER_HOST'] || null);
  if (text === null) return { kind: 'socket', path: usualSocket(environment) };
  if (text.startsWith('unix://')) return { kind: 'socket', path: text.slice('unix://'.length) };
  if (text.startsWith('/')) return { kind: 'socket', path: text };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '' || !['tcp:', 'http:', 'https:'].includes(url.protocol)) {
    throw new Error(`the engine's address ${JSON.stringify(text)} is neither unix:///path nor tcp://host:port`);
  }
  const secure = url.protocol === 'https:' || Boolean(environment['DOCKER_TLS_VERIFY']);
  const port = url.port === '' ? (secure ? 2376 : 2375) : Number(url.port);
  return { kind: 'tcp', host: url.hostname, port, tls: secure ? certificates(environment) : null };
}

function usualSocket(environment: Environment): string {
  const own = environment['XDG_RUNTIME_DIR'];
  const rootless = own ? [join(own, 'docker.sock'), join(own, 'podman/podman.sock')] : [];
  return [DOCKER_SOCKET, ...rootless, PODMAN_SOCKET].find((path) => existsSync(path)) ?? DOCKER_SOCKET;
}

/** As the docker command has it: three files of one folder. */
function certificates(environment: Environment): EngineTls {
  const folder = environment['DOCKER_CERT_PATH'] ?? join(environment['HOME'] ?? '', '.docker');
  const read = (name: string): string => {
    try {
      return readFileSync(join(folder, name), 'utf8');
    } catch {
      throw new Error(`the engine's certificate ${join(folder, name)} cannot be read; set DOCKER_CERT_PATH`);
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}
