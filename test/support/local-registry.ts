import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { manifest } from './packed-package.ts';

const NAME = 'trunkline';

/** A registry on this machine that serves our packed tarball as published, and redirects npm elsewhere for other packages. */
export class LocalRegistry implements AsyncDisposable {
  readonly url: string;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  static async start(tarball: string, elsewhere: string): Promise<LocalRegistry> {
    const bytes = readFileSync(tarball);
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
    const { version } = manifest;
    const server = createServer((request, response) => {
      const { url = '/' } = request;
      if (url.endsWith('.tgz') && url.startsWith(`/${NAME}/`)) {
        response.end(bytes);
      } else if (url === `/${NAME}`) {
        const dist = {
          tarball: new URL(`/${NAME}/-/${NAME}-${version}.tgz`, `http://${request.headers.host}`),
          integrity,
        };
        response.setHeader('content-type', 'application/json');
        response.end(
          JSON.stringify({
            name: NAME,
            'dist-tags': { latest: version },
            versions: { [version]: { ...manifest, dist } },
          }),
        );
      } else response.writeHead(302, { location: new URL(url.slice(1), elsewhere).href }).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new LocalRegistry(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await this.#server[Symbol.asyncDispose]();
  }
}
