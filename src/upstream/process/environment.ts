import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { revealed, Secret, WITHHELD_NAME } from '../../model/secret.ts';
import type { Server, StdioSpec } from '../../model/server.ts';

const ALWAYS = new Set([
  ...['PATH', 'HOME', 'USER', 'SHELL', 'LANG', 'TZ', 'TMPDIR'],
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'],
  ...['SSH_AUTH_SOCK', 'DOCKER_HOST'],
]);
const ALWAYS_PATTERN = /^(?:LC_|XDG_)|_PROXY$/i;
/** Settings with which `uvx`, `pip` and `npx` reach their registries; needed behind a company proxy. */
const FETCHING = /^(?:UV_|PIP_|npm_config_)/i;
/** Variables of libuv, not of uv. */
const OF_LIBUV = new Set(['UV_THREADPOOL_SIZE', 'UV_USE_IO_URING']);
/** Lists the variables that `bin/trunkline.js` set for the gateway's own process because the operator had not set them. */
const SET_BY_BIN = 'TRUNKLINE_OWN_VARIABLES';
/** Variables that npm sets for a command that it runs, such as this gateway; they must not affect another `npx`. */
const NPM_RUN_VARIABLES =
  /^npm_config_(?:package|call|workspaces?|(?:local_|global_)?prefix|global|location|user_agent|npm_version)$/i;
/**
 * npm waits up to a minute before it retries its registry, and only then uses its cache: without a network that is longer than
 * a start may take. 10 s is its first wait.
 */
const NPM_RETRY_TIMEOUT = /^npm_config_fetch_retry_m(?:in|ax)timeout$/i;
const NPM_RETRY_TIMEOUT_MS = '10000';
const NPM_COMMANDS = new Set(['npx', 'npm']);
/** Registry credentials, and URLs that contain credentials. */
const HOLDS_LOGIN = /^npm_config_(?:.*_auth|otp|key)$/i;
const USER_INFO = /:\/\/[^/\s@]+@/;

/**
 * The environment of a local server: a minimal part of the gateway's, what `inheritEnv` adds, and declared variables. A
 * variable with a secret-like name is inherited only if it is listed by name; declared variables always win.
 */
export function childEnvironment(
  spec: Pick<StdioSpec, 'env' | 'inheritEnv'> & Partial<Pick<StdioSpec, 'command'>>,
  own: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const environment: Record<string, string> = {};
  const listed = typeof spec.inheritEnv === 'boolean' ? new Set<string>() : new Set(spec.inheritEnv);
  const setByBin = new Set([SET_BY_BIN, ...(own[SET_BY_BIN] ?? '').split(' ')]);
  for (const [name, value] of Object.entries(own)) {
    if (value === undefined || setByBin.has(name)) continue;
    const open = FETCHING.test(name) ? fetches(name, value) : ALWAYS.has(name) || ALWAYS_PATTERN.test(name);
    const wanted = open || spec.inheritEnv === true;
    if (listed.has(name) || (wanted && !WITHHELD_NAME.test(name))) environment[name] = value;
  }
  if (
    NPM_COMMANDS.has(basename(spec.command ?? '')) &&
    !Object.keys(environment).some((name) => NPM_RETRY_TIMEOUT.test(name))
  ) {
    for (const end of ['min', 'max']) environment[`npm_config_fetch_retry_${end}timeout`] = NPM_RETRY_TIMEOUT_MS;
  }
  return Object.assign(environment, revealed(spec.env));
}

function fetches(name: string, value: string): boolean {
  if (OF_LIBUV.has(name)) return false;
  return !NPM_RUN_VARIABLES.test(name) && !HOLDS_LOGIN.test(name) && !USER_INFO.test(value);
}

/**
 * Variables that are not set although the command line passes them to a container (`docker run -e NAME`) or the definition
 * inherits them by name. Sorted.
 */
export function missingVariables(spec: StdioSpec, own: Readonly<Record<string, string | undefined>>): string[] {
  const there = childEnvironment(spec, own);
  const named = new Set(typeof spec.inheritEnv === 'boolean' ? [] : spec.inheritEnv);
  if (/^(?:docker|podman|nerdctl)$/.test(basename(spec.command))) {
    for (const name of passedToChild(spec.args)) named.add(name);
  }
  return [...named].filter((name) => there[name] === undefined).sort();
}

function passedToChild(args: readonly string[]): string[] {
  return args.flatMap((arg, index) => {
    const name = isEnvironmentOption(args[index - 1] ?? '') ? arg : (/^--env=(.+)$/.exec(arg)?.[1] ?? '');
    return /^[A-Za-z_]\w*$/.test(name) ? [name] : [];
  });
}

function isEnvironmentOption(arg: string): boolean {
  return arg === '-e' || arg === '--env';
}

/** Whether this process runs in a container, whose localhost, files and programs are not those of the machine. */
export function insideContainer(environment: Readonly<Record<string, string | undefined>>): boolean {
  if (environment['KUBERNETES_SERVICE_HOST'] !== undefined) return true;
  return existsSync('/.dockerenv') || existsSync('/run/.containerenv');
}

const EPOCH = 'TRUNKLINE_EPOCH';

/** The server with its owner's fencing token in the environment of its process; unchanged for an empty token. */
export function withEpoch(server: Server, epoch: string): Server {
  const { transport } = server;
  if (epoch === '' || !('env' in transport)) return server;
  return { ...server, transport: { ...transport, env: { ...transport.env, [EPOCH]: new Secret(epoch) } } };
}
