import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, EXIT, noSuch } from '../exit-code.ts';
import type { ServerJson } from './server-json.ts';

const ANSWER_MS = 15_000;
const MAX_BYTES = 10 * 1024 * 1024;
const PAGE = 50;
const OFFICIAL = 'io.modelcontextprotocol.registry/official';

/** A server in a registry, and what the registry says of it. */
export interface RegistryEntry {
  readonly server: ServerJson;
  readonly status: string;
}

/** A registry of MCP servers: its API v0.1, or `server.json` documents in a file or folder. */
export class Registry {
  readonly #source: string;
  #documents: Promise<readonly RegistryEntry[]> | null = null;

  constructor(source: string) {
    this.#source = source;
  }

  /** The latest versions of servers whose name or description has the words. */
  async search(text: string): Promise<readonly RegistryEntry[]> {
    if (this.#isRemote) {
      const query = new URLSearchParams({
        version: 'latest',
        limit: String(PAGE),
        ...(text === '' ? {} : { search: text }),
      });
      const { servers } = (await this.#get(`servers?${query}`)) as { servers?: unknown };
      return listedIn(servers, this.#source);
    }
    const words = text.toLowerCase().split(/\s+/);
    const latest = new Map((await this.#all()).map((one) => [one.server.name, one]));
    const has = ({ server: { name, description = '' } }: RegistryEntry): boolean =>
      words.every((word) => `${name} ${description}`.toLowerCase().includes(word));
    return [...latest.values()].filter(has);
  }

  /** `name`: as in the registry, or what comes after its `/`, if only one server has it. `version`: null for the latest. */
  async find(name: string, version: string | null): Promise<RegistryEntry> {
    const whole = name.includes('/') ? name : await this.#wholeName(name);
    const found = this.#isRemote
      ? await this.#version(whole, version ?? 'latest')
      : await this.#document(whole, version);
    if (found !== null) return found;
    const near = (await this.search(whole.split('/')[1] ?? whole)).map(({ server }) => server.name);
    if (near.includes(whole)) throw usage(`${whole} has no version ${version} in ${this.#source}`);
    throw noSuch(`server "${whole}" in ${this.#source}`, whole, near, '; trunkline search <words> finds servers');
  }

  get #isRemote(): boolean {
    return /^https?:\/\//.test(this.#source);
  }

  async #wholeName(short: string): Promise<string> {
    const names = (await this.search(short)).map(({ server }) => server.name);
    const same = names.filter((name) => name.split('/')[1] === short);
    if (same.length === 1) return same[0]!;
    if (same.length > 1) throw usage(`"${short}" can mean ${same.join(' or ')}: write the whole name`);
    throw noSuch(`server "${short}" in ${this.#source}`, short, names, '; trunkline search <words> finds servers');
  }

  async #version(name: string, version: string): Promise<RegistryEntry | null> {
    const answer = await this.#get(`servers/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`, true);
    return answer === null ? null : (listedIn([answer], this.#source)[0] ?? null);
  }

  async #document(name: string, version: string | null): Promise<RegistryEntry | null> {
    const versions = (await this.#all()).filter(({ server }) => server.name === name);
    return versions.findLast(({ server }) => version === null || server.version === version) ?? null;
  }

  /** Relative to the API, whose version the address may have at its end. */
  async #get(path: string, mayLack = false): Promise<unknown> {
    const base = this.#source.replace(/\/+$/, '').replace(/\/v0(\.\d+)?$/, '');
    const url = `${base}/v0.1/${path}`;
    const failed = (why: string, cause?: unknown): CommandError =>
      new CommandError(
        EXIT.unreachable,
        `the registry ${base} ${why}; name another one with --registry: an address, or a file or folder of server.json documents`,
        { cause },
      );
    const answer = await fetch(url, {
      signal: AbortSignal.timeout(ANSWER_MS),
      headers: { accept: 'application/json' },
    }).catch((error: Error) => {
      throw failed(`does not answer (${(error.cause as Error | undefined)?.message ?? error.message})`, error);
    });
    if (answer.status === 404 && mayLack) return null;
    if (!answer.ok) throw failed(`answers ${answer.status} at ${url}`);
    const text = await answer.text();
    if (text.length > MAX_BYTES) throw failed('answers with more than 10 MiB');
    try {
      return JSON.parse(text);
    } catch (error) {
      throw failed(`answers with something that is not JSON at ${url}`, error);
    }
  }

  /** Of one name the latest version last. */
  #all(): Promise<readonly RegistryEntry[]> {
    this.#documents ??= documentsAt(this.#source);
    return this.#documents;
  }
}

async function documentsAt(path: string): Promise<readonly RegistryEntry[]> {
  const facts = await stat(path).catch((cause: Error) => {
    throw new CommandError(EXIT.usage, `the registry ${path} cannot be read: ${cause.message}`, { cause });
  });
  const names = facts.isDirectory() ? await readdir(path, { recursive: true }) : [''];
  const files = names.filter((name) => name === '' || name.endsWith('.json')).map((name) => join(path, name));
  const found = (await Promise.all(files.map((file) => documentsIn(file, files.length > 1)))).flat();
  if (found.length === 0) throw usage(`there is no server.json document in ${path}`);
  return found.sort((a, b) => compareVersions(a.server.version, b.server.version));
}

/** One document, a list of them, or an answer of a registry. `beside`: one of several files. */
async function documentsIn(file: string, beside: boolean): Promise<readonly RegistryEntry[]> {
  let value: unknown;
  try {
    if ((await stat(file)).size > MAX_BYTES) throw new Error('it has more than 10 MiB');
    value = JSON.parse((await readFile(file, 'utf8')).replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new CommandError(EXIT.usage, `${file} is no server.json: ${(cause as Error).message}`, { cause });
  }
  const { servers = [value] } = (value ?? {}) as { servers?: unknown };
  try {
    return listedIn(Array.isArray(value) ? value : servers, file);
  } catch (error) {
    // A folder may have other documents, such as a package.json.
    if (beside) return [];
    throw error;
  }
}

function listedIn(value: unknown, where: string): RegistryEntry[] {
  if (!Array.isArray(value)) throw usage(`${where} is no registry of API v0.1: its answer has no list of servers`);
  return value.map((one) => {
    const { server = one, _meta: meta } = (one ?? {}) as {
      server?: ServerJson;
      _meta?: Record<string, { status?: unknown }>;
    };
    const { name, version } = (server ?? {}) as Partial<ServerJson>;
    if (typeof name !== 'string' || typeof version !== 'string')
      throw usage(`${where} has a server without "name" or "version", which server.json has since 2025-09`);
    const status = meta?.[OFFICIAL]?.status;
    return { server: server as ServerJson, status: typeof status === 'string' ? status : 'active' };
  });
}

/** By numbers, as versions are; a text after `-` comes before the version without it. */
function compareVersions(a: string, b: string): number {
  const [plainA = '', plainB = ''] = [a, b].map((one) => one.split('-')[0]);
  const order = plainA.localeCompare(plainB, 'en', { numeric: true });
  if (order !== 0) return order;
  return a.includes('-') === b.includes('-') ? a.localeCompare(b, 'en', { numeric: true }) : a.includes('-') ? -1 : 1;
}

function usage(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}
