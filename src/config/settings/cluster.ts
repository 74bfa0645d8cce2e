import { resolve } from 'node:path';
import type { ClusterSettings, NatsCredentials } from '../../model/desired-state.ts';
import { Secret } from '../../model/secret.ts';
import { DEFAULTS } from '../defaults.ts';
import { fromHome } from '../document/from-home.ts';
import { child, isString, type ObjectNode, objectAt, type ScalarNode } from '../document/node.ts';
import { isReadFailure, MAX_FILE_BYTES, type NamedFiles } from '../document/read-source.ts';
import type { Problems } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';
import {
  type BadAddress,
  maskAddress,
  type NatsAddress,
  readNatsAddress,
  readStoreAddress,
  shownAddress,
} from './cluster-addresses.ts';
import { NOWHERE, type Setting } from './settings.ts';

/** Sources of the secret besides the file. There is no option for it, since other users can read command lines. */
const SECRET_VARIABLE = 'TRUNKLINE_CLUSTER_SECRET';
const SECRET_FILE_VARIABLE = 'TRUNKLINE_CLUSTER_SECRET_FILE';
const SHORTEST_SECRET_BYTES = 32;
const NO_KEYS: ObjectNode = { kind: 'object', span: { start: 0, end: 0 }, members: [] };

interface ClusterReading {
  readonly setting: Setting | undefined;
  /** Value of `--nats`, which overrides the file. */
  readonly nats: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly agents: Pick<ReadonlySet<string>, 'has'>;
  readonly problems: Problems;
  readonly files: NamedFiles;
}

/** The cluster of a configuration; null without one. `secrets` must not appear in logs or answers. */
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
  /** Has no keys if only `--nats` requests a cluster. */
  readonly #root: ObjectNode;

  constructor(reading: ClusterReading) {
    this.#reading = reading;
    const node = reading.setting?.member.value;
    this.#root = node?.kind === 'object' ? node : NO_KEYS;
    // Masks the addresses before any problem shows their lines.
    for (const address of [...this.#written(), child(this.#root, 'store')]) {
      if (isString(address)) maskAddress(reading.setting!.source, address);
    }
  }

  read(): ClusterSettings {
    const addresses = this.#addresses();
    const publicSubjects = child(this.#root, 'publicSubjects');
    const publicPrincipal = this.#text('publicPrincipal');
    if (publicPrincipal !== null && !this.#reading.agents.has(publicPrincipal)) {
      const message = `cluster.publicPrincipal ${JSON.stringify(publicPrincipal)} is no agent here`;
      this.#error('TL1703', 'publicPrincipal', message);
    }
    return {
      servers: addresses.map(({ server }) => server),
      name: this.#text('name'),
      node: this.#text('node'),
      secrets: this.#secretsOfCluster(),
      credentials: this.#credentials(addresses),
      tls: this.#tls(),
      onBusLoss: this.#text('onBusLoss') === 'serve' ? 'serve' : 'fence',
      sharedProcesses: this.#text('sharedProcesses') === 'session' ? 'session' : 'node',
      streamCopiesBytes: this.#number('streamCopiesBytes', DEFAULTS.streamCopiesBytes),
      store: this.#store(),
      publicSubjects: publicSubjects?.kind === 'boolean' && publicSubjects.value === true,
      publicPrincipal,
    };
  }

  /** `cluster.nats` as the file has it. */
  #written(): readonly ScalarNode[] {
    const node = child(this.#root, 'nats');
    return node?.kind === 'array' ? node.items.filter(isString) : isString(node) ? [node] : [];
  }

  #addresses(): readonly NatsAddress[] {
    const { nats, setting } = this.#reading;
    const written = this.#written().map((item) => setting?.expander.expandRefusingSecrets(item, 'cluster.nats') ?? '');
    const addresses = nats === undefined ? written : nats.split(',').map((part) => part.trim());
    if (addresses.length === 0) this.#error('TL1702', 'nats', 'cluster.nats says no server of NATS');
    return addresses.flatMap((address) => this.#usable('TL1702', 'nats', address, readNatsAddress(address)) ?? []);
  }

  /** The credentials in the addresses. The client uses the same ones for each server, so they must not differ. */
  #addressCredentials(addresses: readonly NatsAddress[]): Pick<NatsAddress, 'user' | 'password'> {
    const [first = { user: '', password: '' }, ...others] = addresses.filter(
      ({ user, password }) => user !== '' || password !== '',
    );
    if (others.some(({ user, password }) => user !== first.user || password !== first.password)) {
      const message = 'the addresses of cluster.nats show NATS different users, passwords or tokens';
      const fix = 'write the same user and password, or token, in all of them, or in one only';
      this.#error('TL1702', 'nats', message, fix);
    }
    return first;
  }

  #secretsOfCluster(): readonly Secret[] {
    const { env } = this.#reading;
    const fromFile = env[SECRET_FILE_VARIABLE];
    const secretText =
      this.#text('secret') ?? env[SECRET_VARIABLE] ?? (fromFile === undefined ? null : this.#file(fromFile, 'secret'));
    if (secretText === null) {
      this.#error('TL1701', 'secret', `there is neither cluster.secret nor ${SECRET_VARIABLE}`);
      return [];
    }
    const previous = this.#text('previousSecret');
    const texts = [secretText, ...(previous === null ? [] : [previous])].map((text) => text.trim());
    for (const [at, text] of texts.entries()) {
      this.secrets.add(text);
      const bytes = Buffer.byteLength(text);
      const key = at === 0 ? 'secret' : 'previousSecret';
      if (bytes >= SHORTEST_SECRET_BYTES) continue;
      this.#error('TL1701', key, `cluster.${key} has ${bytes} bytes; it needs at least ${SHORTEST_SECRET_BYTES}`);
    }
    return texts.map((text) => new Secret(text));
  }

  #credentials(addresses: readonly NatsAddress[]): NatsCredentials | null {
    const found: NatsCredentials[] = [];
    const inAddresses = this.#addressCredentials(addresses);
    const isToken = inAddresses.user !== '' && inAddresses.password === '';
    const user = this.#text('user') ?? (inAddresses.user === '' || isToken ? null : inAddresses.user);
    const pass = this.#secret('password') ?? (inAddresses.password === '' ? null : this.#kept(inAddresses.password));
    const token = this.#secret('token') ?? (isToken ? this.#kept(inAddresses.user) : null);
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
    const read = this.#usable('TL1704', 'store', address, readStoreAddress(address));
    return read === null ? null : new Secret(read.url);
  }

  #tls(): ClusterSettings['tls'] {
    const node = objectAt(this.#root, 'tls');
    if (node === undefined) return null;
    const file = (key: string): string | null => {
      const path = this.#text(`tls.${key}`, child(node, key));
      return path === null ? null : resolve(this.#reading.setting!.folder, fromHome(path, this.#reading.env));
    };
    return { caFile: file('ca'), certFile: file('cert'), keyFile: file('key') };
  }

  #file(path: string, key: string): string | null {
    const { setting, env, files } = this.#reading;
    const file = resolve(setting?.folder ?? '.', fromHome(path, env));
    const bytes = files.read(file, MAX_FILE_BYTES);
    if (!isReadFailure(bytes)) return bytes.toString();
    this.#error('TL1702', key, `cluster.${key}: ${file}: ${bytes.message}`);
    return null;
  }

  #text(key: string, node = child(this.#root, key)): string | null {
    return isString(node) ? this.#reading.setting!.expander.expandRefusingSecrets(node, `cluster.${key}`) : null;
  }

  #number(key: string, fallback: number): number {
    const node = child(this.#root, key);
    return node?.kind === 'number' ? Number(node.value) : fallback;
  }

  #secret(key: string): Secret | null {
    const text = this.#text(key);
    return text === null ? null : this.#kept(text);
  }

  #kept(text: string): Secret {
    this.secrets.add(text);
    return new Secret(text);
  }

  #usable<T extends { readonly secrets: readonly string[] }>(
    code: ProblemCode,
    key: string,
    address: string,
    read: T | BadAddress,
  ): T | null {
    for (const secret of read.secrets) this.secrets.add(secret);
    if (!('why' in read)) return read;
    this.#error(code, key, `cluster.${key}: ${JSON.stringify(shownAddress(address))} ${read.why}`);
    return null;
  }

  #error(code: ProblemCode, key: string, message: string, fix?: string): void {
    const { setting, problems } = this.#reading;
    const node = child(this.#root, key) ?? this.#root;
    problems.error(code, setting?.source ?? NOWHERE, node === NO_KEYS ? null : node.span, message, fix);
  }
}
