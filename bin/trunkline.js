#!/usr/bin/env node
// Plain JavaScript on purpose: it must parse on any Node, to say in one line which one is needed.
import { existsSync } from 'node:fs';
import module from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { boundYoungGeneration } from './young-generation.js';

// In a checkout the TypeScript sources run directly; the published package has only the built ones.
const source = new URL('../src/main.ts', import.meta.url);
const built = new URL('../dist/main.js', import.meta.url);

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const remedy = existsSync(source) ? 'npm start' : 'npx -y -p node@24 -p trunkline trunkline';
  console.error(`trunkline needs Node.js 22.19 or newer; this is ${process.versions.node}.\n  use: ${remedy}`);
  process.exit(1);
}
if (major === 22) {
  // Node 22 warns at every start that its SQLite is an experiment. It has all that is used of it.
  const { emitWarning } = process;
  process.emitWarning = (warning, type, ...rest) => {
    if (type !== 'ExperimentalWarning') emitWarning(warning, type, ...rest);
  };
}

const OWN = {
  // Look-ups of names block a thread of the pool each, and files need threads too. Read once, when the pool is first used.
  UV_THREADPOOL_SIZE: '16',
  // Node ends after its last look-up, which nothing can cancel. A name server that does not answer takes 4 s with this, 10 s by
  // default; a connection waits 5 s at most for its name anyway.
  RES_OPTIONS: 'timeout:2 attempts:2',
};
const unset = Object.keys(OWN).filter((name) => process.env[name] === undefined);
for (const name of unset) process.env[name] = OWN[name];
// Servers do not inherit them. A gateway that this one starts has them already, and the list with them.
if (unset.length > 0) process.env.TRUNKLINE_OWN_VARIABLES = unset.join(' ');

// npx hands its options on to what it starts: with `package`, the npx of a server would take the server for a command of ours.
delete process.env.npm_config_package;

// A user without HOME and without an entry in passwd, as in containers, has / in place of a home.
if (process.env.HOME === '') delete process.env.HOME;
try {
  homedir();
} catch {
  process.env.HOME = '/';
}

const useSource = existsSync(source) && process.env.TRUNKLINE_BUILT !== '1';

// Compiled code is kept between starts, in the user's own cache folder: one in /tmp could be another user's work.
// A defect of the cache, or NODE_DISABLE_COMPILE_CACHE, only costs time.
if (!useSource) {
  module.enableCompileCache(
    process.env.NODE_COMPILE_CACHE ??
      join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'trunkline', 'code'),
  );
}

// From 80 % of its heap V8 ends a process that it thinks collects too much and does too little, as one looks whose turn the
// machine keeps from it. From there on the gateway refuses what is new, and recovers (decision 026).
setFlagsFromString('--no-detect-ineffective-gcs-near-heap-limit');
// Measured with Node 24 (decision 009). V8 changes its flags without notice: another version keeps its defaults.
if (major === 24) {
  // Large bodies live outside the heap. Without this V8 marks the whole heap anew for every 25 MB of them that come by,
  // which costs more than twice what passing them on does.
  setFlagsFromString('--external-memory-accounted-in-global-limit');
  // Few objects outlive a call: to rouse other threads for those costs more than it saves (decision 022).
  setFlagsFromString('--no-parallel-scavenge');
  boundYoungGeneration(8);
}
const { main } = await import(useSource ? source.href : built.href);
await main(process.argv.slice(2));
