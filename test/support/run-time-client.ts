import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Json, type Reply, send } from './raw-http.ts';
import type { RunningGateway } from './running-gateway.ts';

type Gateway = Pick<RunningGateway, 'folder' | 'controlUrl'>;

/** A client that changes the servers of a running gateway by its control API. */
export class RunTimeClient {
  readonly #gateway: Gateway;
  /** Whether it sends the exec token of the data folder too. */
  exec: boolean;

  constructor(gateway: Gateway, exec = true) {
    this.#gateway = gateway;
    this.exec = exec;
  }

  token(name: 'control' | 'exec' = 'control'): string {
    return readFileSync(join(this.#gateway.folder, 'data', `${name}.token`), 'utf8').trim();
  }

  ask(method: string, path: string, body: object | string | null = null): Promise<Reply> {
    const headers = {
      authorization: `Bearer ${this.token()}`,
      ...(this.exec ? { 'trunkline-exec': this.token('exec') } : {}),
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };
    const text = body === null || typeof body === 'string' ? body : JSON.stringify(body);
    return send(this.#gateway.controlUrl + path, method, headers, text);
  }

  add(name: string, definition: object, query = ''): Promise<Reply> {
    return this.ask('POST', `/api/v1/servers${query}`, { name, ...definition });
  }

  change(name: string, definition: object, query = ''): Promise<Reply> {
    return this.ask('PUT', `/api/v1/servers/${name}${query}`, definition);
  }

  remove(name: string, query = ''): Promise<Reply> {
    return this.ask('DELETE', `/api/v1/servers/${name}${query}`);
  }

  suspend(name: string): Promise<Reply> {
    return this.ask('POST', `/api/v1/servers/${name}/suspend`);
  }

  resume(name: string): Promise<Reply> {
    return this.ask('POST', `/api/v1/servers/${name}/resume`);
  }

  async server(name: string): Promise<Json> {
    return (await this.ask('GET', `/api/v1/servers/${name}`)).json;
  }

  async names(): Promise<readonly string[]> {
    const { servers } = (await this.ask('GET', '/api/v1/servers')).json;
    return servers.map(({ name }: Json) => name);
  }
}
