import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { registryOf } from '../config/files/read-key.ts';
import { suggest } from '../config/problem/problem.ts';
import { type ProxyEnvironment, proxyFor } from '../http/client/proxy-choice.ts';
import { isObject } from '../model/json-object.ts';
import { RegistryError } from './registry-error.ts';
import { type ServerJson, viasOf, type Way, waysOf, whyNoWay } from './server-json.ts';

const ANSWER_MS = 15_000;
const MAX_BYTES = 10 * 1024 * 1024;
const PAGE = 50;
const OFFICIAL = 'io.modelcontextprotocol.registry/official';

/** The registry of the MCP project. */
export const OFFICIAL_REGISTRY = 'https://registry.modelcontextprotocol.io';

/** The registry that the environment or the configuration file names; null for that of the MCP project. */
export async function namedRegistry(file: string | null, env: ProxyEnvironment): Promise<string | null> {
  return env['TRUNKLINE_REGISTRY'] || (file === null ? null : registryOf(file, env));
}

/** A server in a registry, with its status there. */
export interface RegistryEntry {
  readonly server: ServerJson;
  readonly status: string;
}

/** A registry entry that can run here. */
export interface RunnableEntry extends RegistryEntry {
  /** The kinds of all ways to run it. */
  readonly ways: readonly string[];
  readonly way: Way;
}

/** A registry of MCP servers: its API v0.1, or `server.json` documents in a file or folder. */
export class McpRegistry {
  readonly source: string;
  readonly #env: ProxyEnvironment;
  #documents: Promise<readonly RegistryEntry[]> | null = null;

  /** `env`: names the proxy for a registry that is an address. */
  constructor(source: string, env: ProxyEnvironment) {
    this.source = source;
    this.#env = env;
  }

  /** The latest versions of servers whose name or description contains the words; of a registry the first ones. */
  async search(text: string): Promise<readonly RegistryEntry[]> {
    return (await this.#search(text)).found;
  }

  /** `more`: the registry has more than it answers at once. */
  async #search(text: string): Promise<{ readonly found: readonly RegistryEntry[]; readonly more: boolean }> {
    if (this.#isRemote) {
      const query = new URLSearchParams({
        version: 'latest',
        limit: String(PAGE),
        ...(text === '' ? {} : { search: text }),
      });
      const answer = (await this.#get(`servers?${query}`)) as {
        servers?: unknown;
        metadata?: { nextCursor?: unknown } | null;
      };
      return { found: listedIn(answer.servers, this.source), more: Boolean(answer.metadata?.nextCursor) };
    }
    const words = text.toLowerCase().split(/\s+/);
    const latest = new Map((await this.#all()).map((one) => [one.server.name, one]));
    const has = ({ server: { name, description = '' } }: RegistryEntry): boolean =>
      words.every((word) => `${name} ${description}`.toLowerCase().includes(word));
    return { found: [...latest.values()].filter(has), more: false };
  }

  /** `name`: as in the registry, or the part after its `/` if only one server has it. `version`: null for the latest. */
  async find(name: string, version: string | null): Promise<RegistryEntry> {
    const fullName = name.includes('/') ? name : await this.#findFullName(name);
    const found = this.#isRemote
      ? await this.#version(fullName, version ?? 'latest')
      : await this.#document(fullName, version);
    if (found !== null) return found;
    const near = (await this.search(fullName.split('/')[1] ?? fullName)).map(({ server }) => server.name);
    const which = version === null ? 'latest version' : `version ${version}`;
    if (near.includes(fullName)) throw unknown(`${fullName} has no ${which} in ${this.source}`);
    throw this.#noSuch(fullName, near);
  }

  /** The server with this name, or name@version, and the way of kind `via`, or its first way. */
  async runnable(wanted: string, via: string | undefined): Promise<RunnableEntry> {
    const [, name = wanted, version = null] = /^([^@]+)@(.+)$/.exec(wanted) ?? [];
    const { server, status } = await this.find(name, version);
    if (status === 'deleted') throw unknown(`${server.name} was deleted from ${this.source}`);
    const all = waysOf(server);
    const ways = viasOf(all);
    const way = all.find((one) => via === undefined || one.via === via);
    if (way !== undefined) return { server, status, ways, way };
    if (ways.length > 0) throw invalid(`${server.name} has: ${ways.join(', ')}`);
    throw invalid(`${server.name} does not run here; the registry has of it ${whyNoWay(server)}`);
  }

  get #isRemote(): boolean {
    return /^https?:\/\//.test(this.source);
  }

  async #findFullName(short: string): Promise<string> {
    const { found, more } = await this.#search(short);
    const names = found.map(({ server }) => server.name);
    const same = names.filter((name) => name.split('/')[1] === short);
    if (more) throw unknown(`${this.source} has too many servers that match "${short}": write the whole name`);
    if (same.length === 1) return same[0]!;
    if (same.length > 1) throw unknown(`"${short}" can mean ${same.join(' or ')}: write the whole name`);
    throw this.#noSuch(short, names);
  }

  #noSuch(name: string, names: readonly string[]): RegistryError {
    const close = suggest(name, names);
    const hint = close === null ? '; trunkline search <words> finds servers' : `; did you mean "${close}"?`;
    return unknown(`there is no server "${name}" in ${this.source}${hint}`);
  }

  async #version(name: string, version: string): Promise<RegistryEntry | null> {
    const answer = await this.#get(`servers/${encodeURIComponent(name)}/versions/${encodeURIComponent(version)}`, true);
    return answer === null ? null : (listedIn([answer], this.source)[0] ?? null);
  }

  async #document(name: string, version: string | null): Promise<RegistryEntry | null> {
    const versions = (await this.#all()).filter(({ server }) => server.name === name);
    return versions.findLast(({ server }) => version === null || server.version === version) ?? null;
  }

  /** `path` is relative to the API, whose version may be at the end of the address. */
  async #get(path: string, allowMissing = false): Promise<unknown> {
    const base = this.source.replace(/\/+$/, '').replace(/\/v0(\.\d+)?$/, '');
    const url = `${base}/v0.1/${path}`;
    const failed = (why: string, cause?: unknown): RegistryError =>
      new RegistryError(
        'unreachable',
        `the registry ${base} ${why}; name another one with --registry: an address, or a file or folder of server.json documents`,
        { cause },
      );
    const { status, text } = await this.#ask(url).catch((error: Error) => {
      throw failed(`does not answer (${reasonOf(error)})`, error);
    });
    if (status === 404 && allowMissing) return null;
    if (status < 200 || status > 299) throw failed(`answers ${status} at ${url}`);
    if (text === null) throw failed('answers with more than 10 MiB');
    try {
      return JSON.parse(text);
    } catch (error) {
      throw failed(`answers with something that is not JSON at ${url}`, error);
    }
  }

  async #ask(url: string): Promise<RegistryAnswer> {
    const options = { signal: AbortSignal.timeout(ANSWER_MS), headers: { accept: 'application/json' } };
    const proxy = proxyFor(new URL(url), this.#env);
    if (proxy === null) return read(await fetch(url, options));
    const { fetch: fetchOver, ProxyAgent } = await import('undici');
    const dispatcher = new ProxyAgent(proxy.href);
    try {
      return await read(await fetchOver(url, { ...options, dispatcher }));
    } catch (cause) {
      throw new Error(`over the proxy ${proxy.host}: ${reasonOf(cause as Error)}`, { cause });
    } finally {
      void dispatcher.destroy();
    }
  }

  /** Ordered by version, the latest last. */
  #all(): Promise<readonly RegistryEntry[]> {
    this.#documents ??= documentsAt(this.source);
    return this.#documents;
  }
}

interface RegistryAnswer {
  readonly status: number;
  /** null for a body of more than `MAX_BYTES`; its rest is not read. */
  readonly text: string | null;
}

async function read(answer: { status: number; body: AsyncIterable<Uint8Array> | null }): Promise<RegistryAnswer> {
  const { status, body } = answer;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) return { status, text: null };
    chunks.push(chunk);
  }
  return { status, text: new TextDecoder().decode(Buffer.concat(chunks)) };
}

/** A TypeError of `fetch` has the reason in its cause. */
function reasonOf(error: Error): string {
  const { cause } = error;
  return error instanceof TypeError && cause instanceof Error ? cause.message : error.message;
}

async function documentsAt(path: string): Promise<readonly RegistryEntry[]> {
  const facts = await stat(path).catch((cause: Error) => {
    throw new RegistryError('unreachable', `the registry ${path} cannot be read: ${cause.message}`, { cause });
  });
  const names = facts.isDirectory() ? await readdir(path, { recursive: true }) : [''];
  const files = names.filter((name) => name === '' || name.endsWith('.json')).map((name) => join(path, name));
  const found = (await Promise.all(files.map((file) => documentsIn(file, files.length > 1)))).flat();
  if (found.length === 0) throw invalid(`there is no server.json document in ${path}`);
  return found.sort((a, b) => compareVersions(a.server.version, b.server.version));
}

/** One document, a list of documents, or an answer of a registry. `beside`: the file is one of several. */
async function documentsIn(file: string, beside: boolean): Promise<readonly RegistryEntry[]> {
  let value: unknown;
  try {
    if ((await stat(file)).size > MAX_BYTES) throw new Error('it has more than 10 MiB');
    value = JSON.parse((await readFile(file, 'utf8')).replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new RegistryError('invalid', `${file} is no server.json: ${(cause as Error).message}`, { cause });
  }
  const { servers = [value] } = (value ?? {}) as { servers?: unknown };
  try {
    return listedIn(Array.isArray(value) ? value : servers, file);
  } catch (error) {
    // A folder may contain other documents, such as a package.json.
    if (beside) return [];
    throw error;
  }
}

function listedIn(value: unknown, where: string): RegistryEntry[] {
  if (!Array.isArray(value)) throw invalid(`${where} is no registry of API v0.1: its answer has no list of servers`);
  return value.map((one) => {
    const { server = one, _meta: meta } = (one ?? {}) as {
      server?: unknown;
      _meta?: Record<string, { status?: unknown }>;
    };
    const { name, version, description, packages, remotes, ...rest } = (server ?? {}) as Record<string, unknown>;
    if (typeof name !== 'string' || typeof version !== 'string')
      throw invalid(`${where} has a server without "name" or "version", which server.json has since 2025-09`);
    const status = meta?.[OFFICIAL]?.status;
    const about = typeof description === 'string' ? { description } : {};
    return {
      server: { ...rest, name, version, ...about, packages: objectsIn(packages), remotes: objectsIn(remotes) },
      status: typeof status === 'string' ? status : 'active',
    };
  });
}

/** The objects in a list; none in any other value. */
function objectsIn<T extends object>(value: unknown): readonly T[] {
  return Array.isArray(value) ? (value.filter(isObject) as unknown as readonly T[]) : [];
}

/** Compares the numbers of versions; a version with text after `-` comes before the version without it. */
function compareVersions(a: string, b: string): number {
  const [plainA = '', plainB = ''] = [a, b].map((one) => one.split('-')[0]);
  const order = plainA.localeCompare(plainB, 'en', { numeric: true });
  if (order !== 0) return order;
  return a.includes('-') === b.includes('-') ? a.localeCompare(b, 'en', { numeric: true }) : a.includes('-') ? -1 : 1;
}

function unknown(message: string): RegistryError {
  return new RegistryError('unknown', message);
}

function invalid(message: string): RegistryError {
  return new RegistryError('invalid', message);
}
