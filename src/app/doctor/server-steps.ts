import { isIP } from 'node:net';
import { proxyFor } from '../../http/client/proxy-choice.ts';
import { Resolver } from '../../http/client/resolver.ts';
import { bareHost } from '../../model/host-address.ts';
import { printable } from '../../model/printable.ts';
import { sanitizedDefinition } from '../../model/sanitized-definition.ts';
import { type HttpSpec, type Server, type StdioSpec, takesTokens } from '../../model/server.ts';
import { type ServerStatus, START_STEPS, type StartStep, UP } from '../../model/server-state.ts';
import type { LogEntry } from '../../telemetry/log-format.ts';
import { resolveCommand } from '../../upstream/process/command.ts';
import { childEnvironment, missingVariables } from '../../upstream/process/environment.ts';
import { overSsh } from '../../upstream/process/spawn-child.ts';
import type { App } from '../app.ts';
import { type DoctorStep, failed, ok, splitRemedy, warning } from './doctor-step.ts';
import { addressesOf, certificateOf, connectionOf, versionOf } from './probes.ts';
import { hasSignIn, signInSteps } from './sign-in-steps.ts';

/** A certificate with fewer days left gets a warning. */
const SOON_DAYS = 14;
const SHOWN_LINES = 10;
const SHOWN_ITEMS = 3;
/** A stack frame of an exception; it only helps those who can change the server. */
const FRAME = /^\s+at /;

/** A server that the doctor's gateway has tried to start, and what the gateway logged about it. */
export interface TriedServer {
  readonly app: App;
  readonly server: Server;
  readonly status: ServerStatus;
  readonly logEntries: readonly LogEntry[];
}

/**
 * Returns the steps of the start in their order, up to the one that failed. The gateway's own attempt decides which that is;
 * probes only add facts.
 */
export async function serverSteps(tried: TriedServer): Promise<readonly DoctorStep[]> {
  const { server, status } = tried;
  if (!server.enabled)
    return [warning('definition', 'it is disabled or suspended, and was not tried', resumeAdvice(server))];
  if (server.misconfigured !== undefined) return [failed('definition', server.misconfigured)];
  const { transport } = server;
  const up = UP.has(status.state);
  const last = up ? null : (status.lastLaunchFailure?.step ?? 'initialize');
  const passed = last === null ? START_STEPS : START_STEPS.slice(0, START_STEPS.indexOf(last));
  const found =
    'url' in transport
      ? await ofUrl(tried, transport, passed)
      : transport.type === 'stdio'
        ? await ofProcess(tried, transport, passed)
        : ofContainer(tried, passed);
  const place = `${server.origin.file}:${server.origin.line}:${server.origin.column}`;
  const steps = [ok('definition', server.origin.file === '' ? 'added at run time' : place), ...found];
  if (last === null) return [...steps, ...(await ofProtocol(tried))];
  const signIn =
    last === 'login' && hasSignIn(server) ? await signInSteps(server, tried.app.components.credentials) : [];
  if (signIn.some(({ state }) => state === 'failed')) return [...steps, ...signIn];
  return [...steps, ...signIn, await failedStep(tried, last)];
}

function resumeAdvice({ name }: Server): string {
  return `name it to try it all the same: trunkline doctor ${name}`;
}

async function failedStep({ server, status }: TriedServer, step: StartStep): Promise<DoctorStep> {
  const { lastLaunchFailure: failure, reason, state } = status;
  const text = failure?.error || reason || `it is ${state}`;
  const { command, args } = sanitizedDefinition(server.transport);
  const byHand = command === null ? null : `see what it says when it is run by hand: ${[command, ...args].join(' ')}`;
  const [what, remedy] = splitRemedy(text, server.name);
  // The message about a missing command or image contains the remedy.
  const advice = step === 'command' || server.transport.type === 'docker' ? remedy : (failure?.likelyCause ?? remedy);
  const fix = step === 'start' || step === 'initialize' ? [advice, byHand] : [advice];
  const challenge = Object.entries(status.authChallenge ?? {}).filter(([, value]) => value !== null);
  const asked = challenge.map(([key, value]) => `; ${key} ${value}`).join('');
  const shown = step === 'certificate' && 'url' in server.transport ? await shownBy(server.transport) : asked;
  return failed(
    step,
    printable(advice === remedy ? what : `${what}${remedy === null ? '' : `; ${remedy}`}`) + shown,
    fix.filter((part) => part !== null).join('; ') || null,
  );
}

async function ofProcess(
  { app, status, logEntries }: TriedServer,
  spec: StdioSpec,
  passed: Passed,
): Promise<DoctorStep[]> {
  const { env } = app.components.options.load;
  const steps: DoctorStep[] = [];
  const started = spec.ssh == null ? spec : overSsh(spec, spec.ssh, env).spec;
  const environment = childEnvironment(started, env);
  if (passed.includes('command')) {
    const file = await resolveCommand(status.name, started, environment).catch(() => null);
    const version = file === null ? null : await versionOf(file, environment);
    steps.push(ok('command', `${file ?? started.command}${version === null ? '' : ` (${version})`} in ${started.cwd}`));
  }
  const missing = missingVariables(spec, env);
  if (missing.length > 0) {
    steps.push(
      warning(
        'variables',
        `${missing.join(', ')}: named in its definition, but not set here`,
        `export ${missing[0]}=...`,
      ),
    );
  } else if (Object.keys(spec.env).length > 0) {
    steps.push(ok('variables', Object.keys(spec.env).sort().join(', ')));
  }
  if (spec.ssh != null && passed.includes('connection')) steps.push(ok('connection', `ssh to ${spec.ssh.host}`));
  const pid = logEntries.findLast(({ event }) => event === 'process_started')?.fields['pid'];
  if (passed.includes('start')) steps.push(ok('start', `process ${pid ?? 'started'}`));
  return steps;
}

function ofContainer({ logEntries }: TriedServer, passed: Passed): DoctorStep[] {
  const id = logEntries.findLast(({ event }) => event === 'container_started')?.fields['container'];
  return [
    ...(passed.includes('connection') ? [ok('connection', 'the container engine answers')] : []),
    ...(passed.includes('start') ? [ok('start', `container ${id ?? 'started'}`)] : []),
  ];
}

async function shownBy(spec: HttpSpec): Promise<string> {
  const found = await certificateOf(new Resolver(), new URL(spec.url), spec);
  return found === null ? '' : `; its certificate is ${found.text}`;
}

type Passed = readonly StartStep[];

async function ofUrl({ app, server, status }: TriedServer, spec: HttpSpec, passed: Passed): Promise<DoctorStep[]> {
  const url = new URL(spec.url);
  const resolver = new Resolver();
  const steps: DoctorStep[] = [];
  const proxy = proxyOf(url, app);
  const host = bareHost(url.hostname);
  if (proxy !== null) {
    if (passed.includes('connection')) steps.push(ok('proxy', proxy.host));
  } else {
    const addresses = passed.includes('name') && isIP(host) === 0 ? await addressesOf(resolver, host) : null;
    if (addresses !== null) steps.push(ok('name', `${host} is ${addresses}`));
    if (passed.includes('connection'))
      steps.push(ok('connection', (await connectionOf(resolver, url)) ?? 'it takes connections'));
    if (url.protocol === 'https:' && passed.includes('certificate')) {
      const found = await certificateOf(resolver, url, spec);
      const soon = found !== null && found.daysLeft < SOON_DAYS;
      const text = found?.text ?? 'it is trusted';
      steps.push(soon ? warning('certificate', text, 'have it renewed') : ok('certificate', text));
    }
  }
  if (passed.includes('http')) {
    const ms = status.phases?.firstByte?.lastMs;
    steps.push(ok('http', `${url.pathname} answers${ms === undefined ? '' : ` in ${Math.round(ms)} ms`}`));
  }
  if (passed.includes('login')) steps.push(ok('login', credentialText(app, server)));
  return steps;
}

function proxyOf(url: URL, app: App): URL | null {
  try {
    return proxyFor(url, app.components.options.load.env);
  } catch {
    return null;
  }
}

function credentialText({ components }: App, server: Server): string {
  if (!takesTokens(server)) return 'its Authorization header is accepted';
  const known = components.credentials.list().some((one) => one.server === server.name && one.state === 'connected');
  return known ? 'its stored credential is accepted' : 'it asks for no credentials';
}

/** Returns the steps after the start of a server that is up. */
async function ofProtocol(tried: TriedServer): Promise<DoctorStep[]> {
  const { app, server, status, logEntries } = tried;
  const { revision, toolCount, promptCount, resourceCount, startedInMs } = status;
  const { upstreams, operator } = app.components;
  const info = upstreams.knownCatalog(server.name, operator.profile, true)?.handshake.serverInfo ?? null;
  const { name = 'without a name', version = '' } = (info === null ? {} : JSON.parse(info)) as Record<string, string>;
  const took = startedInMs === null ? '' : ` after ${startedInMs} ms`;
  const lists = `${toolCount} tools, ${promptCount} prompts, ${resourceCount} resources${took}`;
  const junk = logEntries.filter(({ event }) => event === 'not_a_message');
  const { begins = '', skippedLines = 1 } = junk.at(-1)?.fields ?? {};
  return [
    ok('initialize', printable(`${name} ${version} speaks ${revision}`)),
    toolCount + promptCount + resourceCount === 0
      ? warning('lists', lists, 'see whether it needs an argument or a variable to offer something')
      : ok('lists', lists),
    ...(await notAsListed(tried)),
    ...(junk.length === 0
      ? []
      : [
          warning(
            'output',
            `${skippedLines} lines on standard output are no messages, the last: ${begins}`,
            'have the server write its log to standard error',
          ),
        ]),
  ];
}

/** Returns warnings for the definitions of the server that clients do not get, or get under another name. */
async function notAsListed({ app, server, logEntries }: TriedServer): Promise<DoctorStep[]> {
  const { gateway, operator, options } = app.components;
  const invalid = logEntries.filter(({ event }) => event === 'list_item_invalid').map(({ fields }) => fields);
  const { notices } = await gateway.catalog(operator.profile, 0, server.name);
  const own = notices.filter((notice) => notice.server === server.name);
  const [unnamed, renamed] = [own.filter((one) => one.exposed === null), own.filter((one) => one.exposed !== null)];
  const found = [
    ['schemas', 'do not get', invalid.map(({ list, item, reason }) => `${list} ${JSON.stringify(item)}: ${reason}`)],
    ['names', 'do not get', unnamed.map(({ name, reason }) => `${JSON.stringify(name)}: ${reason}`)],
    ['names', 'get', renamed.map(({ name, exposed, reason }) => `${JSON.stringify(name)} as ${exposed}: ${reason}`)],
  ] as const;
  return found.flatMap(([step, what, texts]) => {
    if (texts.length === 0) return [];
    const more = texts.length <= SHOWN_ITEMS ? '' : `; and ${texts.length - SHOWN_ITEMS} more`;
    const shown = printable(options.logger.redact(texts.slice(0, SHOWN_ITEMS).join('; ')));
    const fix =
      what === 'get'
        ? 'calls of that name work; for another one, rename the tool or the server'
        : 'correct it in the server, or use another version of it';
    return [warning(step, `clients ${what} ${shown}${more}`, fix)];
  });
}

/** Returns the last lines that a process wrote to standard error before it failed. */
export function finalOutput({ lastLaunchFailure }: ServerStatus): readonly string[] {
  const text = printable(lastLaunchFailure?.stderrTail ?? '').trimEnd();
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !FRAME.test(line));
  return lines.slice(-SHOWN_LINES);
}
