import { InvalidArgumentError, Option } from 'commander';
import { fromHome } from '../config/document/from-home.ts';
import { bareHost, isHost } from '../model/host-address.ts';

/** Options that select a gateway or say how it runs; most can also be set as `TRUNKLINE_…` in the environment. */
export interface GatewayFlags {
  readonly host?: string;
  readonly port?: number;
  readonly controlPort?: number;
  readonly dataDir?: string;
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error';
  /** Writes log records to the terminal as well. */
  readonly log?: boolean;
  readonly insecure?: boolean;
  readonly strict?: boolean;
  readonly nats?: string;
  readonly json?: boolean;
  /** Only for commands whose words do not name a file. */
  readonly config?: string;
  /** Variables for the server command after `--`, as `NAME` or `NAME=value`. */
  readonly env?: readonly string[];
  /** Internal option of `start`: this process is the one in the background. */
  readonly inBackground?: boolean;
  /** For `stdio` and `link`: the key of an agent of the gateway. With `gatewayUrl`: the file with the key for `cert`. */
  readonly key?: string;
  /** `--server`: the control listener of a gateway on another machine, with its files below. */
  readonly gatewayUrl?: string;
  readonly tokenFile?: string;
  readonly ca?: string;
  readonly cert?: string;
}

export const GATEWAY_OPTIONS: readonly Option[] = [
  new Option('--host <address>', 'address to listen on (default 127.0.0.1)').env('TRUNKLINE_HOST').argParser(host),
  new Option('--port <number>', 'port of the MCP listener (default 4270, or the one it had; 0 selects a free one)')
    .env('TRUNKLINE_PORT')
    .argParser(port),
  new Option(
    '--control-port <number>',
    'port of the control listener (default 4271, or the one it had; 0 selects a free one)',
  )
    .env('TRUNKLINE_CONTROL_PORT')
    .argParser(port),
  new Option('--data-dir <folder>', 'data folder (default: one per configuration file, in the XDG state folder)')
    .env('TRUNKLINE_DATA_DIR')
    .argParser((text) => fromHome(text, process.env)),
  new Option('--log-level <level>', 'lowest level that is logged to standard error')
    .env('TRUNKLINE_LOG_LEVEL')
    .choices(['debug', 'info', 'warn', 'error']),
  new Option('--nats <urls>', 'join the cluster of this NATS, for example nats://127.0.0.1:4222').env('TRUNKLINE_NATS'),
  new Option('--strict', 'do not start if a server is misconfigured').env('TRUNKLINE_STRICT'),
  new Option('--insecure', 'listen beyond loopback without authentication and TLS').env('TRUNKLINE_INSECURE'),
];

/** For a gateway in the foreground. */
export const LOG_OPTION = new Option('--log', 'write the log to the terminal too, not to trunkline logs alone').env(
  'TRUNKLINE_LOG',
);

/** The environment variable keeps the key off the command line, which every process of the machine can read. */
export const KEY_OPTION = new Option('--key <key>', 'key of an agent, for a running gateway that has agents').env(
  'TRUNKLINE_KEY',
);

/** For commands that use a gateway on another machine. */
export const SERVER_OPTIONS: readonly Option[] = [
  // Renamed, since `server` is the name of a server in the flags of other commands.
  Object.assign(
    new Option('--server <url>', 'control listener of a gateway elsewhere; TRUNKLINE_TOKEN has its token'),
    {
      attributeName: () => 'gatewayUrl',
    },
  ).env('TRUNKLINE_SERVER'),
  new Option('--token-file <file>', 'with --server: file with the control token'),
  new Option('--ca <file>', 'with --server: certificates that its certificate is verified with (PEM)'),
  new Option('--cert <file>', 'with --server: certificate of this client (PEM)'),
  new Option('--key <file>', 'with --server: its key (PEM)'),
];

/** For commands whose words do not name a file. */
export const CONFIG_OPTION = new Option('--config <file>', 'configuration file (default: the nearest one)').env(
  'TRUNKLINE_CONFIG',
);

export const JSON_OPTION = new Option('--json', 'print JSON instead of text').env('TRUNKLINE_JSON');

export const VARIABLE_OPTION = new Option(
  '-e, --env <NAME[=value]>',
  'pass a variable to the command behind "--"; may be repeated',
).argParser(collected);

export function collected(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Parses `90s`, `10m` or `2h`. Refuses a bare number, which people mean as seconds or milliseconds. */
export function duration(text: string): number {
  const [, digits, unit] = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text) ?? [];
  const ms = Number(digits) * UNITS[unit as keyof typeof UNITS];
  if (!(ms > 0)) throw new InvalidArgumentError('A time is written as 90s, 10m or 2h: a number and ms, s, m, h or d.');
  return ms;
}

export function lines(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('The number of lines is a whole number.');
  return Number(text);
}

function host(text: string): string {
  if (!isHost(text))
    throw new InvalidArgumentError('It takes an address or name alone, such as 0.0.0.0; the port is --port.');
  return bareHost(text);
}

export function port(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > 65535) throw new InvalidArgumentError('A port is a whole number from 0 to 65535.');
  return value;
}
