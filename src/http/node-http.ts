/**
 * `node:http`, asked for and not imported: an import reads every name that the module exports, some of which load
 * Node's own fetch and WebSocket, a fifth of a whole start. Types are imported as ever.
 */
export const nodeHttp = process.getBuiltinModule('node:http');
