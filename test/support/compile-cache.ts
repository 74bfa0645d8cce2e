/**
 * Loaded before each test file by `npm test`: keeps compiled code, and TypeScript without its types, from one process to
 * the next. V8 rejects code that was compiled with other flags, and the gateway sets flags of its own: the programs that a
 * test starts have a cache of their own. Servers do not inherit the variable from a gateway.
 */
import { enableCompileCache } from 'node:module';
import { resolve } from 'node:path';

const FOLDER = resolve(import.meta.dirname, '../../node_modules/.cache/trunkline-code');

enableCompileCache(resolve(FOLDER, 'tests'));
process.env['NODE_COMPILE_CACHE'] = resolve(FOLDER, 'programs');
