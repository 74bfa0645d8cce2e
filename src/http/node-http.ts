/**
 * `node:http` without an import: that reads every exported name and loads Node's fetch and WebSocket, a fifth of a
 * start.
 */
export const nodeHttp = process.getBuiltinModule('node:http');
