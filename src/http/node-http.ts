/**
 * `node:http` without an import, which would read every exported name and load Node's fetch and WebSocket: a fifth of the
 * start time.
 */
export const nodeHttp = process.getBuiltinModule('node:http');
