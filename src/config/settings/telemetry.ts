import type { DesiredState, OtlpReceiver } from '../../model/desired-state.ts';
import { bareHost, isHost } from '../../model/host-address.ts';
import { headerComplaint } from '../../model/request-headers.ts';
import { Secret } from '../../model/secret.ts';
import { DEFAULTS } from '../defaults.ts';
import { child, isString, type ObjectNode, objectAt } from '../document/node.ts';
import type { Problems } from '../problem/problem.ts';
import type { ProblemCode } from '../problem/problem-catalogue.ts';
import { MIN_KEY_LENGTH } from './agents.ts';
import type { Setting } from './settings.ts';

type TelemetryState = Pick<DesiredState, 'metricsToken' | 'metricsAddress' | 'telemetry'>;

/** Reads `metrics`, `telemetry` and the token of `control`. `secrets` must not appear in logs or answers. */
export function readTelemetry(
  settings: ReadonlyMap<string, Setting>,
  { listen, control }: Pick<DesiredState, 'listen' | 'control'>,
  problems: Problems,
): TelemetryState & { readonly controlToken: Secret | null; readonly secrets: readonly string[] } {
  const metrics = new Section('metrics', settings.get('metrics'), problems);
  const telemetry = new Section('telemetry', settings.get('telemetry'), problems);
  const token = metrics.token();
  const controlToken = new Section('control', settings.get('control'), problems).token();
  const metricsAddress = metrics.address('listen');
  const { port = 0 } = metricsAddress ?? {};
  if (port !== 0 && (port === listen.port || port === control.port)) {
    metrics.error('TL1603', 'listen', `metrics.listen has port ${port}, as another listener`);
  }
  const traces = telemetry.receiver('traces');
  const pushed = telemetry.receiver('metrics');
  return {
    metricsToken: token,
    controlToken,
    metricsAddress,
    telemetry: {
      traces: traces && { ...traces, sample: telemetry.number('traces.sample', DEFAULTS.traceSample) },
      metrics: pushed && { ...pushed, intervalMs: telemetry.number('metrics.intervalMs', DEFAULTS.metricsIntervalMs) },
    },
    secrets: [token, controlToken].flatMap((one) => one?.reveal() ?? []).concat([...telemetry.secrets]),
  };
}

/** One top-level key; `path` names keys below it. A value of a wrong type counts as absent: `checkShape` reports it. */
class Section {
  readonly secrets = new Set<string>();
  readonly #name: string;
  readonly #setting: Setting | undefined;
  readonly #problems: Problems;

  constructor(name: string, setting: Setting | undefined, problems: Problems) {
    this.#name = name;
    this.#setting = setting;
    this.#problems = problems;
  }

  text(path: string): string | null {
    const node = this.#node(path);
    return isString(node) ? this.#setting!.expander.expand(node, `${this.#name}.${path}`) : null;
  }

  token(): Secret | null {
    const token = this.text('token');
    if (token !== null && (token.length < MIN_KEY_LENGTH || /[^\u0021-\u007e]/.test(token))) {
      const message = `${this.#name}.token needs ${MIN_KEY_LENGTH} characters or more, without blanks, of those that a header can carry`;
      this.error('TL1501', 'token', message);
    }
    return token === null ? null : new Secret(token);
  }

  number(path: string, fallback: number): number {
    const node = this.#node(path);
    return node?.kind === 'number' ? Number(node.value) : fallback;
  }

  address(path: string): { readonly host: string; readonly port: number } | null {
    const text = this.text(path);
    if (text === null) return null;
    const [, host = '', digits] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
    if (isHost(host) && Number(digits) <= 65_535) return { host: bareHost(host), port: Number(digits) };
    this.error('TL1602', path, `${this.#name}.${path} ${JSON.stringify(text)} is not host:port`);
    return null;
  }

  /** The receiver of one signal; an address without a path gets that of the signal. */
  receiver(signal: 'traces' | 'metrics'): OtlpReceiver | null {
    const text = this.text(`${signal}.otlp`);
    if (text === null) return null;
    const url = URL.canParse(text) ? new URL(text) : null;
    if (url === null || !/^https?:$/.test(url.protocol) || `${url.username}${url.password}${url.hash}` !== '') {
      const fix = 'write http://host:4318 or https://host/path; credentials belong into headers';
      this.error('TL1602', `${signal}.otlp`, `${this.#name}.${signal}.otlp is not an http or https URL`, fix);
      return null;
    }
    if (url.pathname === '/') url.pathname = `/v1/${signal}`;
    return { url: url.href, headers: this.#headers(`${signal}.headers`) };
  }

  error(code: ProblemCode, path: string, message: string, fix?: string): void {
    this.#problems.error(code, this.#setting!.source, this.#node(path)?.span ?? null, message, fix);
  }

  #headers(path: string): Readonly<Record<string, Secret>> {
    const headers: Record<string, Secret> = Object.create(null);
    const seen = new Map<string, string>();
    const node = this.#node(path);
    for (const { key, value } of node?.kind === 'object' ? node.members : []) {
      const text = isString(value) ? this.#setting!.expander.expand(value, `${this.#name}.${path}.${key}`) : null;
      if (text === null) continue;
      const complaint = headerComplaint(key, text, seen);
      if (complaint !== null) this.error('TL1410', `${path}.${key}`, `${this.#name}.${path}.${key} ${complaint}`);
      seen.set(key.toLowerCase(), key);
      this.secrets.add(text);
      headers[key] = new Secret(text.trim());
    }
    return headers;
  }

  #node(path: string): ReturnType<typeof child> {
    const root = this.#setting?.member.value;
    const parts = path.split('.');
    const last = parts.pop()!;
    let at: ObjectNode | undefined = root?.kind === 'object' ? root : undefined;
    for (const part of parts) at = at && objectAt(at, part);
    return at && child(at, last);
  }
}
