import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ClusterSettings, NatsCredentials } from '../../model/cluster-settings.ts';
import { Secret } from '../../model/secret.ts';
import { child, isString, type ObjectNode, plain } from '../document/node.ts';
import type { Problems } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';
import { Source, type Span } from '../problem/source.ts';
import type { Setting } from './settings.ts';

/** Where the secret is looked for when the file does not say it: never on a command line, which everybody can read. */
const SECRET_VARIABLE = 'TRUNKLINE_CLUSTER_SECRET';
const SECRET_FILE_VARIABLE = 'TRUNKLINE_CLUSTER_SECRET_FILE';
const SHORTEST_SECRET_BYTES = 32;
const MAX_FILE_BYTES = 64 * 1024;
const NOWHERE = new Source('<command line>', '');

export interface ClusterReading {
  readonly setting: Setting | undefined;
  /** `--nats`, stronger than the file. */
  readonly nats: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly agents: ReadonlySet<string>;
  readonly problems: Problems;
}

/** The cluster of a configuration; null where there is none. `secrets` are kept out of whatever is shown. */
export function readCluster(reading: ClusterReading): {
  readonly cluster: ClusterSettings | null;
  readonly secrets: readonly string[];
} {
  const { setting, nats } = reading;
  if (setting?.member.value.kind !== 'object' && nats === undefined) return { cluster: null, secrets: [] };
  const reader = new ClusterReader(reading);
  const cluster = reader.read();
  return { cluster, secrets: [...reader.secrets] };
}

class ClusterReader {
  readonly secrets = new Set<string>();
  readonly #reading: ClusterReading;
  readonly #root: ObjectNode | null;

  constructor(reading: ClusterReading) {
    this.#reading = reading;
    const node = reading.setting?.member.value;
    this.#root = node?.kind === 'object' ? node : null;
  }

  read(): ClusterSettings {
    const addresses = this.#addresses();
    const servers = addresses.map((address) => this.#withoutCredentials(address));
    const publicPrincipal = this.#text('publicPrincipal');
    if (publicPrincipal !== null && !this.#reading.agents.has(publicPrincipal)) {
      this.#error(
        'TL1703',
        'publicPrincipal',
        `cluster.publicPrincipal ${JSON.stringify(publicPrincipal)} is no agent here`,
      );
    }
    return {
      servers,
      node: this.#text('node'),
      secrets: this.#secretsOfCluster(),
      credentials: this.#credentials(addresses),
      tls: this.#tls(),
      onBusLoss: this.#text('onBusLoss') === 'serve' ? 'serve' : 'fence',
      store: this.#store(),
      publicSubjects: this.#root !== null && flag(this.#root, 'publicSubjects'),
      publicPrincipal,
    };
  }

  #addresses(): readonly string[] {
    const { nats } = this.#reading;
    const node = this.#root === null ? undefined : child(this.#root, 'nats');
    const items = node?.kind === 'array' ? node.items.filter(isString) : isString(node) ? [node] : [];
    const { setting } = this.#reading;
    const written = items.map((item) => setting?.expander.expand(item, 'cluster.nats') ?? '');
    const addresses = nats === undefined ? written : nats.split(',').map((part) => part.trim());
    if (addresses.length === 0) this.#error('TL1702', 'nats', 'cluster.nats says no server of NATS');
    for (const address of addresses) {
      if (isNatsAddress(address)) continue;
      this.#error('TL1702', 'nats', `cluster.nats: ${JSON.stringify(masked(address))} is no address of NATS`);
    }
    return addresses.filter(isNatsAddress);
  }

  #withoutCredentials(address: string): string {
    const { protocol, host } = new URL(address);
    return `${protocol}//${host}`;
  }

  #secretsOfCluster(): readonly Secret[] {
    const { env } = this.#reading;
    const fromFile = env[SECRET_FILE_VARIABLE];
    const said =
      this.#text('secret') ?? env[SECRET_VARIABLE] ?? (fromFile === undefined ? null : this.#file(fromFile, 'secret'));
    if (said === null) {
      this.#error('TL1701', 'secret', `there is neither cluster.secret nor ${SECRET_VARIABLE}`);
      return [];
    }
    const previous = this.#text('previousSecret');
    const texts = [said, ...(previous === null ? [] : [previous])].map((text) => text.trim());
    for (const [at, text] of texts.entries()) {
      this.secrets.add(text);
      const bytes = Buffer.byteLength(text);
      const key = at === 0 ? 'secret' : 'previousSecret';
      if (bytes < SHORTEST_SECRET_BYTES) {
        this.#error('TL1701', key, `cluster.${key} has ${bytes} bytes; ${SHORTEST_SECRET_BYTES} are the least`);
      }
    }
    return texts.map((text) => new Secret(text));
  }

  #credentials(addresses: readonly string[]): NatsCredentials | null {
    const found: NatsCredentials[] = [];
    const { username = '', password = '' } = addresses.length === 0 ? {} : new URL(addresses[0]!);
    const user = this.#text('user') ?? (username === '' || password === '' ? null : decodeURIComponent(username));
    const pass = this.#secret('password') ?? (password === '' ? null : this.#kept(decodeURIComponent(password)));
    const token =
      this.#secret('token') ?? (username === '' || password !== '' ? null : this.#kept(decodeURIComponent(username)));
    if (user !== null && pass !== null) found.push({ kind: 'user', user, password: pass });
    else if ((user === null) !== (pass === null)) {
      this.#error('TL1702', user === null ? 'password' : 'user', 'cluster.user and cluster.password need each other');
    }
    if (token !== null) found.push({ kind: 'token', token });
    const seed = this.#secret('nkey');
    if (seed !== null) found.push({ kind: 'nkey', seed });
    const path = this.#text('credentials');
    const creds = path === null ? null : this.#file(path, 'credentials');
    if (creds !== null) found.push({ kind: 'creds', creds: this.#kept(creds) });
    if (found.length > 1) {
      this.#error('TL1702', 'nats', `there are ${found.length} ways in which this node could show who it is: keep one`);
    }
    return found[0] ?? null;
  }

  #store(): Secret | null {
    const address = this.#text('store');
    if (address === null) return null;
    if (!isDatabase(address)) {
      this.#error('TL1704', 'store', `cluster.store: ${JSON.stringify(masked(address))} is no address of PostgreSQL`);
      return null;
    }
    const { password } = new URL(address);
    if (password !== '') this.secrets.add(decodeURIComponent(password));
    return this.#kept(address);
  }

  #tls(): ClusterSettings['tls'] {
    const node = this.#root === null ? undefined : child(this.#root, 'tls');
    if (node?.kind !== 'object') return null;
    const file = (key: string): string | null => {
      const item = child(node, key);
      if (!isString(item)) return null;
      const path = this.#reading.setting!.expander.expand(item, `cluster.tls.${key}`);
      return path === null ? null : resolve(this.#reading.setting!.folder, path);
    };
    return { caFile: file('ca'), certFile: file('cert'), keyFile: file('key') };
  }

  #file(path: string, key: string): string | null {
    try {
      const bytes = readFileSync(resolve(this.#reading.setting?.folder ?? '.', path));
      if (bytes.length <= MAX_FILE_BYTES) return bytes.toString();
    } catch {
      // Said below.
    }
    this.#error('TL1702', key, `cluster.${key}: ${path} cannot be read`);
    return null;
  }

  #text(key: string): string | null {
    const node = this.#root === null ? undefined : child(this.#root, key);
    return isString(node) ? this.#reading.setting!.expander.expand(node, `cluster.${key}`) : null;
  }

  #secret(key: string): Secret | null {
    const text = this.#text(key);
    return text === null ? null : this.#kept(text);
  }

  #kept(text: string): Secret {
    this.secrets.add(text);
    return new Secret(text);
  }

  #error(code: ProblemCode, key: string, message: string): void {
    const { setting, problems } = this.#reading;
    const node = this.#root === null ? undefined : (child(this.#root, key) ?? this.#root);
    const span: Span | null = node?.span ?? null;
    problems.error(code, setting?.source ?? NOWHERE, span, message);
  }
}

function flag(root: ObjectNode, key: string): boolean {
  const node = child(root, key);
  return node !== undefined && plain(node) === true;
}

function isNatsAddress(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, pathname, search } = new URL(text);
  return /^(?:nats|tls):$/.test(protocol) && hostname !== '' && /^\/?$/.test(pathname) && search === '';
}

function isDatabase(text: string): boolean {
  return URL.canParse(text) && /^postgres(?:ql)?:$/.test(new URL(text).protocol) && new URL(text).hostname !== '';
}

function masked(address: string): string {
  return address.replace(/\/\/[^@/]*@/, '//…@');
}
