import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPublicUrl } from './definition-needs.ts';

test('addresses of this machine and its networks are not public, in any spelling', () => {
  const hosts = [
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '0x7f.1',
    '127.1',
    '127.0.0.1.',
    '0',
    '0.0.0.0',
    '10.1.2.3',
    '172.31.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '169.254.169.254',
    '0xa9fea9fe',
    '224.0.0.1',
    '255.255.255.255',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::10.0.0.1]',
    '[64:ff9b::a9fe:a9fe]',
    '[64:ff9b::1]',
    '[64:ff9b::]',
    '[64:ff9b:1::808:808]',
    '[2002:7f00:1::]',
    '[fe80::1]',
    '[fd00:ec2::254]',
    '[ff02::1]',
    'localhost',
    'LOCALHOST.',
    'a.localhost',
    'printer.local',
    'metadata.google.internal',
    'intranet',
    '①②⑦.0.0.1',
    '127。0。0。1',
  ];
  for (const host of hosts) assert.equal(isPublicUrl(new URL(`http://${host}:8080/mcp`).href), false, host);
});

test('other addresses are public', () => {
  for (const host of [
    'example.com',
    '93.184.215.14',
    '[2606:2800:21f:cb07:6820:80da:af6b:8b2c]',
    'api.example.org.',
    '[64:ff9b::5db8:d80e]',
    '[64:ff9b::808:0]',
    '[64:ff9b::8.8.8.8]',
  ])
    assert.equal(isPublicUrl(new URL(`https://${host}/mcp`).href), true, host);
});
