/** A process with one HTTP server, whose paths each fail in another way. Writes its port, and ends with its input. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

function answer(request: IncomingMessage, response: ServerResponse): void {
  const json = { 'content-type': 'application/json' };
  const event = { 'content-type': 'text/event-stream' };
  switch (request.url?.slice(1)) {
    case 'silent':
      return;
    case 'dripping': {
      response.writeHead(200, json);
      const drip = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(drip));
      return;
    }
    case 'failing':
      response.writeHead(500, json).end('{}');
      return;
    case 'redirecting':
      response.writeHead(307, { location: '/redirecting' }).end();
      return;
    case 'forbidding':
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      return;
    case 'other_type':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'.repeat(1_000));
      return;
    case 'endless': {
      response.writeHead(200, event);
      const comments = ': nothing\n\n'.repeat(1_000);
      const write = (): void => {
        while (!response.destroyed && response.write(comments));
      };
      response.on('drain', write);
      write();
      return;
    }
    case 'resetting':
      response.destroy();
      return;
    default:
      throw new Error(`there is no such way to fail: ${request.url}`);
  }
}

const server = createServer((request, response) => {
  request.resume();
  answer(request, response);
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit());
