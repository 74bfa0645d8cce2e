import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { family } from '../load/process-usage.ts';
import { Child, freePort } from './child.ts';
import { serverUrl } from './direct.ts';
import type { Target } from './target.ts';

/**
 * nginx as a byte proxy with one worker, which keeps its connections to the server. Its limit of requests per connection,
 * on both sides a thousand by default, is raised: nginx would close the client's connection during a measurement.
 */
export const nginx: Target = {
  name: 'nginx',
  maxSessions: Number.POSITIVE_INFINITY,
  canServe: (behind) => behind !== 'stdio',
  async start(scene, behind) {
    const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-nginx-'));
    const port = await freePort();
    const upstream = new URL(serverUrl(scene, behind));
    const file = join(folder, 'nginx.conf');
    await writeFile(file, configuration(folder, port, upstream.host));
    const child = new Child(['nginx', '-p', folder, '-e', join(folder, 'error.log'), '-c', file], {
      env: { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` },
    });
    await child.listening(port);
    return {
      url: `http://127.0.0.1:${port}${upstream.pathname}`,
      toolPrefix: '',
      pids: () => family(child.pid, null),
      async stop() {
        await child.stop();
        await rm(folder, { recursive: true, force: true });
      },
    };
  },
};

function configuration(folder: string, port: number, server: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  );
  return `
worker_processes 1;
daemon off;
pid ${join(folder, 'nginx.pid')};
events { worker_connections 8192; }
http {
  access_log off;
  ${temporary.join('\n  ')}
  client_max_body_size 20m;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  upstream measured {
    server ${server};
    keepalive 256;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://measured;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_buffering off;
    }
  }
}
`;
}
