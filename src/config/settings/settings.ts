import { isIP } from 'node:net';
import { resolve } from 'node:path';
import type { ConfigInput } from '../../../schema/config-input.d.ts';
import { type DesiredState, unsafeExposure } from '../../model/desired-state.ts';
import { bareHost, isLoopbackHost } from '../../model/host-address.ts';
import type { Expander } from '../document/expand.ts';
import { child, isString, type Member, type Node } from '../document/node.ts';
import { type Filled, filledIn } from '../document/shape.ts';
import { type Problems, problemAt, Source, type TextSpan } from '../problem/problem.ts';
import { configJsonSchema } from '../schema-json.ts';

/** What the command line or environment says, stronger than any file. */
export interface Overrides {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly controlPort?: number | undefined;
  readonly dataDir?: string | undefined;
  readonly logLevel?: DesiredState['logLevel'] | undefined;
  readonly insecure?: boolean | undefined;
  /** Servers of NATS with commas between them: joins a cluster. */
  readonly nats?: string | undefined;
}

/** One of our keys at the top of a file, with that file. */
export interface Setting {
  readonly member: Member;
  readonly source: Source;
  readonly expander: Expander;
  readonly folder: string;
}

export type Settings = Omit<DesiredState, 'servers' | 'agents' | 'cluster' | 'files'>;

/** Our own keys, from whichever file has them, with the defaults of the schema, checked beyond their shape. */
export class SettingsReader {
  readonly #settings: ReadonlyMap<string, Setting>;
  readonly #problems: Problems;

  constructor(settings: ReadonlyMap<string, Setting>, problems: Problems) {
    this.#settings = settings;
    this.#problems = problems;
  }

  read(overrides: Overrides, hasAgents: boolean, longestTimeoutMs: number): Settings {
    const members = [...this.#settings.values()].map(({ member }) => member);
    const root = { kind: 'object', span: { start: 0, end: 0 }, members } as const;
    const values = filledIn(root, configJsonSchema()) as Filled<ConfigInput>;
    const { unknownCallers, listen, control, sessions, firstListWaitMs, maxTimeoutMs, maxProcesses, pool, log } =
      values;
    const [certFile, keyFile] = [this.#path('tls', 'cert'), this.#path('tls', 'key')];
    this.#checkList('trustedProxies', isAddressBlock, 'is not an address or a block like 10.0.0.0/8');
    this.#checkList('allowedHosts', isHostPattern, 'is not a host name');
    this.#checkList('allowedOrigins', isOrigin, 'is not an origin like https://app.example.com');
    const settings: Settings = {
      unknownCallers,
      listen: {
        ...listen,
        host: overrides.host ?? this.#host('listen', listen.host),
        port: overrides.port ?? listen.port,
        tls: certFile === null || keyFile === null ? null : { certFile, keyFile },
        insecure: overrides.insecure ?? listen.insecure,
      },
      control: {
        host: this.#host('control', control.host),
        port: overrides.controlPort ?? control.port,
      },
      allowedCommands: control.commands,
      sessions,
      firstListWaitMs,
      maxTimeoutMs: Math.max(maxTimeoutMs, longestTimeoutMs),
      maxProcesses,
      pool,
      dataDir: overrides.dataDir ?? this.#path('data', 'dir'),
      logLevel: overrides.logLevel ?? log.level,
    };
    this.#checkPorts(settings);
    this.#checkExposure(settings, hasAgents);
    return settings;
  }

  #checkExposure({ listen, control, unknownCallers }: Settings, hasAgents: boolean): void {
    const exposed = unsafeExposure(listen, unknownCallers, hasAgents);
    if (isHost(listen.host) && exposed !== null) {
      const lacking = exposed.authenticated ? 'TLS' : hasAgents ? 'refusing unknown callers' : 'agents and TLS';
      this.#error('TL1601', 'listen', 'host', `listening on ${listen.host} without ${lacking} is refused`);
    }
    if (!isLoopbackHost(control.host) && !listen.insecure) {
      const fix = 'leave control.host out, and reach it through a tunnel or proxy on this machine';
      this.#error('TL1601', 'control', 'host', `the control listener on ${control.host} is refused`, fix);
    }
  }

  #checkPorts({ listen, control }: Settings): void {
    if (listen.port === 0 || listen.port !== control.port) return;
    this.#error('TL1603', 'control', 'port', `both listeners have port ${listen.port}`);
  }

  #host(key: 'listen' | 'control', host: string): string {
    if (!isHost(host))
      this.#error('TL1602', key, 'host', `${key}.host ${JSON.stringify(host)} is not an address or host name`);
    return bareHost(host);
  }

  #checkList(key: string, accepts: (text: string) => boolean, complaint: string): void {
    const node = this.#node('listen', key);
    const source = this.#settings.get('listen')?.source ?? NOWHERE;
    for (const item of node?.kind === 'array' ? node.items : []) {
      if (!isString(item) || accepts(item.text)) continue;
      this.#problems.error('TL1602', source, item.span, `listen.${key}: ${JSON.stringify(item.text)} ${complaint}`);
    }
  }

  #path(key: string, inner: string): string | null {
    const setting = this.#settings.get(key);
    const node = this.#node(key, inner);
    if (setting === undefined || !isString(node)) return null;
    const path = setting.expander.expand(node, `${key}.${inner}`);
    return path === null ? null : resolve(setting.folder, path);
  }

  #node(key: string, inner?: string): Node | undefined {
    const node = this.#settings.get(key)?.member.value;
    if (inner === undefined) return node;
    return node?.kind === 'object' ? child(node, inner) : undefined;
  }

  #error(code: 'TL1601' | 'TL1602' | 'TL1603', key: string, inner: string, message: string, fix?: string): void {
    const node = this.#node(key, inner) ?? this.#node(key);
    const source = this.#settings.get(key)?.source ?? NOWHERE;
    const span: TextSpan | null = node?.span ?? null;
    this.#problems.errors.push(problemAt(code, source, span, message, fix));
  }
}

/** Where the command line is to blame, there is no file to point at. */
const NOWHERE = new Source('<command line>', '');

/** An address or name to bind to or accept: no scheme, no port, no path. */
function isHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  if (isIP(bare) !== 0) return true;
  // What is made of digits and dots only is meant as an address, and is a wrong one.
  if (/^[\d.]+$/.test(bare)) return false;
  return /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}))*\.?$/.test(bare);
}

/** An address, or a block of them as in `10.0.0.0/8`. */
function isAddressBlock(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** A host name that may be accepted, with or without port, or `*.example.com`. */
function isHostPattern(text: string): boolean {
  const withoutPort = /^\[.*\]$/.test(text) || isIP(text) === 6 ? text : text.replace(/:\d{1,5}$/, '');
  return isHost(withoutPort.replace(/^\*\./, ''));
}

/** A browser origin: scheme, host and port, nothing after. */
function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.origin === 'null'
    ? /^[a-z][a-z0-9+.-]*:\/\/[A-Za-z0-9._-]+$/.test(text)
    : url.origin === text.toLowerCase();
}
