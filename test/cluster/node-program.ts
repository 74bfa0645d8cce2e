/** A node of a cluster as a process of its own: `node-program.ts <name> <nats url> <configuration file>`. */
import { dirname } from 'node:path';
import { openNatsConnection } from '../../src/app/nats-connection.ts';
import { openApp } from '../../src/app/open-app.ts';
import { processLogger } from '../../src/app/process-logger.ts';
import { untilStopped } from '../../src/cli/signals.ts';
import { SECRET } from '../support/cluster-bench.ts';

const [node, nats, file] = process.argv.slice(2) as [string, string, string];
const logger = processLogger({ level: 'info', json: true, write: (text) => process.stderr.write(text) });
const options = { servers: [nats], name: node, credentials: null, tls: null };
const opened = await openApp({
  load: { files: [file], cwd: dirname(file), env: process.env },
  logger,
  state: 'none',
  follow: true,
  cluster: await openNatsConnection({ node, nats: options, secrets: [SECRET] }, logger),
});
if (!opened.ok) throw new Error(JSON.stringify(opened.problem));
const { app } = opened;
const stopped = untilStopped(app);
const addresses = await app.listen();
process.stdout.write(`${JSON.stringify({ ...addresses, token: app.rooms.controlToken })}\n`);
app.startServers();
process.exit(await stopped);
