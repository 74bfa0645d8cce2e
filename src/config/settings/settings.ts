import { isIP } from 'node:net';
import { resolve } from 'node:path';
import type { ConfigInput } from '../../../schema/config-input.d.ts';
import { type DesiredState, unsafeExposure } from '../../model/desired-state.ts';
import { bareHost, isHost, isLoopbackHost } from '../../model/host-address.ts';
import type { Expander } from '../document/expand.ts';
import { child, isString, type Member, type Node } from '../document/node.ts';
import { type WithDefaults, withDefaults } from '../document/shape.ts';
import { type Problems, problemAt, Source } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';
import { configJsonSchema } from '../schema-json.ts';

/** Settings of the command line or environment, which override those of files. */
export interface Overrides {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly controlPort?: number | undefined;
  readonly dataDir?: string | undefined;
  /** Ports if neither flags nor files name one. */
  readonly usual?: { readonly port: number; readonly controlPort: number } | undefined;
  readonly logLevel?: DesiredState['logLevel'] | undefined;
  readonly insecure?: boolean | undefined;
  /** NATS servers, separated by commas: joins a cluster. */
  readonly nats?: string | undefined;
}

/** One of our top-level keys, with its file. */
export interface Setting {
  readonly member: Member;
  readonly source: Source;
  readonly expander: Expander;
  readonly folder: string;
}

export type Settings = Omit<
  DesiredState,
  'servers' | 'agents' | 'cluster' | 'files' | 'metricsToken' | 'metricsAddress' | 'telemetry'
>;

/** Source of problems of the command line, which has no file. */
export const NOWHERE = new Source('<command line>', '');

/** Reads our own keys from all files, with the defaults of the schema, and checks what the schema cannot express. */
export function readSettings(
  written: ReadonlyMap<string, Setting>,
  overrides: Overrides,
  hasAgents: boolean,
  longestTimeoutMs: number,
  problems: Problems,
): Settings {
  const members = [...written.values()].map(({ member }) => member);
  const root = { kind: 'object', span: { start: 0, end: 0 }, members } as const;
  const values = withDefaults(root, configJsonSchema()) as WithDefaults<ConfigInput>;

  const nodeOf = (key: string, inner: string): Node | undefined => {
    const node = written.get(key)?.member.value;
    return node?.kind === 'object' ? child(node, inner) : undefined;
  };
  const complain = (code: ProblemCode, key: string, inner: string, message: string, fix?: string): void => {
    const setting = written.get(key);
    const span = (nodeOf(key, inner) ?? setting?.member.value)?.span ?? null;
    problems.errors.push(problemAt(code, setting?.source ?? NOWHERE, span, message, fix));
  };
  const pathIn = (node: Node | undefined, key: string, place: string): string | null => {
    const setting = written.get(key);
    const path = setting !== undefined && isString(node) ? setting.expander.expandRefusingSecrets(node, place) : null;
    return path === null ? null : resolve(setting!.folder, setting!.expander.fromHome(path));
  };
  const pathOf = (key: string, inner: string): string | null => {
    return pathIn(nodeOf(key, inner), key, `${key}.${inner}`);
  };
  const hostOf = (key: 'listen' | 'control', host: string): string => {
    if (!isHost(host))
      complain(
        'TL1602',
        key,
        'host',
        `${key}.host ${JSON.stringify(host)} is not an address or host name`,
        `write the host alone; its port is ${key}.port`,
      );
    return bareHost(host);
  };
  const checkList = (
    key: 'listen' | 'control',
    inner: string,
    accepts: (text: string) => boolean,
    complaint: string,
  ): void => {
    const node = nodeOf(key, inner);
    for (const item of node?.kind === 'array' ? node.items.filter(isString) : []) {
      if (accepts(item.text)) continue;
      const message = `${key}.${inner}: ${JSON.stringify(item.text)} ${complaint}`;
      problems.error('TL1602', written.get(key)!.source, item.span, message);
    }
  };

  const { unknownCallers, listen, control, sessions, firstListWaitMs, maxTimeoutMs, maxProcesses, pool, log } = values;
  const [certFile, keyFile] = [pathOf('tls', 'cert'), pathOf('tls', 'key')];
  checkList('listen', 'trustedProxies', isAddressBlock, 'is not an address or a block like 10.0.0.0/8');
  checkList('listen', 'allowedHosts', isHostPattern, 'is not a host name');
  checkList('listen', 'allowedOrigins', isOrigin, 'is not an origin like https://app.example.com');
  checkList('control', 'allowedHosts', isHostPattern, 'is not a host name');
  const publicUrlIn = (key: 'listen' | 'control', text: string | undefined): string | null => {
    const publicUrl = text === undefined ? null : publicUrlOf(text);
    if (text !== undefined && publicUrl === null) {
      const message = `${key}.publicUrl ${JSON.stringify(text)} is not an http or https URL without a query`;
      complain('TL1602', key, 'publicUrl', message);
    }
    return publicUrl;
  };
  const controlTls = (): DesiredState['control']['tls'] => {
    const node = nodeOf('control', 'tls');
    const path = (inner: string): string | null =>
      node?.kind === 'object' ? pathIn(child(node, inner), 'control', `control.tls.${inner}`) : null;
    const [certFile, keyFile, clientCaFile] = [path('cert'), path('key'), path('clientCa')];
    return certFile === null || keyFile === null ? null : { certFile, keyFile, clientCaFile };
  };
  const usual = { listen: overrides.usual?.port, control: overrides.usual?.controlPort };
  const usualOr = (key: 'listen' | 'control', port: number): number =>
    nodeOf(key, 'port') === undefined ? (usual[key] ?? port) : port;
  const settings: Settings = {
    unknownCallers,
    listen: {
      ...listen,
      publicUrl: publicUrlIn('listen', listen.publicUrl),
      host: overrides.host ?? hostOf('listen', listen.host),
      port: overrides.port ?? usualOr('listen', listen.port),
      tls: certFile === null || keyFile === null ? null : { certFile, keyFile },
      insecure: overrides.insecure ?? listen.insecure,
    },
    control: {
      host: hostOf('control', control.host),
      port: overrides.controlPort ?? usualOr('control', control.port),
      tls: controlTls(),
      token: null,
      allowedHosts: control.allowedHosts ?? [],
      publicUrl: publicUrlIn('control', control.publicUrl),
    },
    allowedCommands: control.commands,
    sessions,
    firstListWaitMs,
    maxTimeoutMs: Math.max(maxTimeoutMs, longestTimeoutMs),
    maxProcesses,
    pool,
    dataDir: overrides.dataDir ?? pathOf('data', 'dir'),
    logLevel: overrides.logLevel ?? log.level,
  };
  const { host, port, insecure } = settings.listen;
  if (port !== 0 && port === settings.control.port) {
    complain('TL1603', 'control', 'port', `both listeners have port ${port}`);
  }
  const exposed = unsafeExposure(settings.listen, unknownCallers, hasAgents);
  if (isHost(host) && exposed !== null) {
    const lacking = exposed.authenticated ? 'TLS' : hasAgents ? 'refusing unknown callers' : 'agents and TLS';
    complain('TL1601', 'listen', 'host', `listening on ${host} without ${lacking} is refused`);
  }
  const { host: controlHost, tls: ownTls } = settings.control;
  const proven = ownTls !== null && (ownTls.clientCaFile !== null || nodeOf('control', 'token') !== undefined);
  if (!isLoopbackHost(controlHost) && !proven && !insecure) {
    const lacking = ownTls === null ? 'TLS' : 'a token';
    const fix =
      ownTls === null
        ? 'set control.tls with cert and key, and control.token or control.tls.clientCa; or leave control.host out, and reach it through a tunnel'
        : 'set control.token, for example to ${env:TRUNKLINE_CONTROL_TOKEN}, or control.tls.clientCa';
    complain('TL1601', 'control', 'host', `the control listener on ${controlHost} without ${lacking} is refused`, fix);
  }
  return settings;
}

/** The URL without a trailing slash; null for an invalid one. */
function publicUrlOf(text: string): string | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') return null;
  return url.href.replace(/\/$/, '');
}

/** An address, or a block such as `10.0.0.0/8`. */
function isAddressBlock(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const family = isIP(address);
  if (family === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** A host name to accept, with or without port, or `*.example.com`. */
function isHostPattern(text: string): boolean {
  const withoutPort = /^\[.*\]$/.test(text) || isIP(text) === 6 ? text : text.replace(/:\d{1,5}$/, '');
  return isHost(withoutPort.replace(/^\*\./, ''));
}

/** A browser origin: scheme, host and port, nothing after them. */
function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.origin === 'null'
    ? /^[a-z][a-z0-9+.-]*:\/\/[A-Za-z0-9._-]+$/.test(text)
    : url.origin === text.toLowerCase();
}
