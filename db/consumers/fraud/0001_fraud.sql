-- +goose Up
CREATE SCHEMA IF NOT EXISTS khata_fraud;
